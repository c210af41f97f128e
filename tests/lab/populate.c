/* Maps memory of programs in a guest at once, and not page by page as it is touched.
 *
 * User-Mode Linux handles a fault on a page ten times as long as it takes to map one beforehand, and a database
 * server touches tens of thousands of them before it answers. /etc/ld.so.preload of a guest names this library.
 * Nothing but the time at which memory is mapped is different.
 *
 * It uses no library, for it is loaded with the C libraries of several Debian releases.
 */

#define PROT_WRITE 2
#define MAP_PRIVATE 0x2
#define MAP_ANONYMOUS 0x20
#define MAP_POPULATE 0x8000
#define UNLIKE_A_HEAP (0x10 | 0x100 | 0x4000 | 0x20000) /* MAP_FIXED, _GROWSDOWN, _NORESERVE, _STACK */
#define MADV_POPULATE_WRITE 23
#define ENOMEM 12
#define SYS_MMAP 9
#define SYS_BRK 12
#define SYS_MADVISE 28
#define PAGE 4096UL
#define LARGEST (64UL << 20) /* a buffer pool is not touched as a whole */

extern int *__errno_location(void);
extern void *__curbrk;

static long ask(long number, long a, long b, long c, long d, long e, long f)
{
    long answer;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(answer)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return answer;
}

void *mmap(void *where, unsigned long length, int protection, int flags, int file, long offset)
{
    int kind = flags & (MAP_PRIVATE | MAP_ANONYMOUS | UNLIKE_A_HEAP);
    if (kind == (MAP_PRIVATE | MAP_ANONYMOUS) && (protection & PROT_WRITE) && length <= LARGEST)
        flags |= MAP_POPULATE;
    long answer = ask(SYS_MMAP, (long)where, length, protection, flags, file, offset);
    if (answer < 0 && answer > -(long)PAGE) {
        *__errno_location() = -answer;
        return (void *)-1;
    }
    return (void *)answer;
}

void *mmap64(void *where, unsigned long length, int protection, int flags, int file, long offset)
{
    return mmap(where, length, protection, flags, file, offset);
}

void *sbrk(long more)
{
    if (!__curbrk)
        __curbrk = (void *)ask(SYS_BRK, 0, 0, 0, 0, 0, 0);
    char *old = __curbrk;
    if (!more)
        return old;
    char *end = (char *)ask(SYS_BRK, (long)(old + more), 0, 0, 0, 0, 0);
    if (end != old + more) {
        *__errno_location() = ENOMEM;
        return (void *)-1;
    }
    __curbrk = end;
    unsigned long begin = ((unsigned long)old + PAGE - 1) & -PAGE;
    if (more > 0 && (unsigned long)more <= LARGEST && (unsigned long)end > begin)
        ask(SYS_MADVISE, begin, (unsigned long)end - begin, MADV_POPULATE_WRITE, 0, 0, 0);
    return old;
}
