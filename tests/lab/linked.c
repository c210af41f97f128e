/* Linked to zfs and zpool, and done before they begin. */

#include <malloc.h>
#include <nss.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define HEAP (512 << 10) /* `zfs list` of ten datasets fills most of it */
#define PAGE 4096

/* What each command fills, mapped at once and not page by page as it is touched: populate.c cannot do that here, for
 * nothing is loaded before a program that is linked statically. */
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

/* Names of users and groups come from /etc alone: what else /etc/nsswitch.conf names would be loaded, and a program
 * that is linked statically crashes when it calls that. */
__attribute__((constructor)) static void name_files(void)
{
    __nss_configure_lookup("passwd", "files");
    __nss_configure_lookup("group", "files");
}

/* There is no static libudev, and in a guest no udev: nothing is found by it. */
#define NOTHING(name) \
    void *name(void) \
    { \
        return NULL; \
    }
NOTHING(udev_new)
NOTHING(udev_unref)
NOTHING(udev_device_get_devlinks_list_entry)
NOTHING(udev_device_get_parent_with_subsystem_devtype)
NOTHING(udev_device_get_property_value)
NOTHING(udev_device_new_from_subsystem_sysname)
NOTHING(udev_device_unref)
NOTHING(udev_list_entry_get_name)
NOTHING(udev_list_entry_get_next)
