/* Preloaded before the C library: while a file with the name of a fault exists, syncs fail or reads hang. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Whether the file of this fault exists and the descriptor is a file of the store. */
static int has(const char *fault, int file)
{
    char asked[4096], link[64], path[4096];
    snprintf(asked, sizeof asked, "%s/%s", getenv("KASSETTE_DISK_FAULTS"), fault);
    if (access(asked, F_OK) != 0)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    return strstr(path, "/data/store/") != NULL;
}

static int synced(long call, int file)
{
    if (has("syncs-fail", file)) {
        errno = EIO;
        return -1;
    }
    return syscall(call, file);
}

int fsync(int file) { return synced(SYS_fsync, file); }

int fdatasync(int file) { return synced(SYS_fdatasync, file); }

ssize_t pread64(int file, void *into, size_t length, off64_t at)
{
    while (has("reads-hang", file))
        usleep(10000);
    return syscall(SYS_pread64, file, into, length, at);
}
