/* Linked to zfs and zpool: maps the memory that each command fills at once, and not page by page as it is touched.
 *
 * populate.c cannot: the C library's allocator asks the kernel itself, and nothing is loaded before a program that
 * is linked statically.
 */

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define HEAP (512 << 10) /* `zfs list` of ten datasets fills most of it */
#define PAGE 4096

__attribute__((constructor)) static void map_heap(void)
{
    mallopt(M_TOP_PAD, HEAP);
    mallopt(M_MMAP_THRESHOLD, 32 << 20); /* what ioctls are answered in comes from the heap, too */
    char *volatile first = malloc(256 << 10); /* more than there is: the heap grows by this and the pad */
    free(first);
    uintptr_t begin = ((uintptr_t)first + PAGE - 1) & -(uintptr_t)PAGE;
    if (first)
        madvise((void *)begin, HEAP, MADV_POPULATE_WRITE);
}
