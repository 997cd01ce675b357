/* A disk that is full or slow, below one folder: loaded with LD_PRELOAD, told by a file of two numbers.

   CAPSET_DISK names that file, CAPSET_DISK_FOLDER the folder. The first number is not 0 while the disk is full, the
   second is the milliseconds that each write and each fsync takes. What is written elsewhere is left alone. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static volatile const int *told;
static const char *folder;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("CAPSET_DISK");
    folder = getenv("CAPSET_DISK_FOLDER");
    int file = path && folder ? open(path, O_RDONLY) : -1;
    if (file < 0) return;
    void *found = mmap(NULL, 2 * sizeof(int), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (found != MAP_FAILED) told = found;
}

static int is_there(int file) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    if (length > 4 && !strcmp(path + length - 4, "/log")) return 0; /* PostgreSQL's, which says what happened */
    return !strncmp(path, folder, strlen(folder));
}

/* Wait as a slow disk does; return whether there is no room. */
static int refuses(int file, int grows) {
    if (!told || (!told[0] && !told[1]) || !is_there(file)) return 0;
    if (told[1]) usleep(1000 * told[1]);
    return grows && told[0];
}

#define REAL(name) static __typeof__(name) *real; if (!real) real = dlsym(RTLD_NEXT, #name)
#define WRAP(result, name, grows, parameters, ...) \
    result name parameters { \
        REAL(name); \
        if (refuses(file, grows)) { errno = ENOSPC; return -1; } \
        return real(__VA_ARGS__); \
    }

WRAP(ssize_t, write, 1, (int file, const void *bytes, size_t size), file, bytes, size)
WRAP(ssize_t, writev, 1, (int file, const struct iovec *parts, int count), file, parts, count)
WRAP(ssize_t, pwrite, 1, (int file, const void *bytes, size_t size, off_t at), file, bytes, size, at)
WRAP(ssize_t, pwrite64, 1, (int file, const void *bytes, size_t size, off64_t at), file, bytes, size, at)
WRAP(ssize_t, pwritev, 1, (int file, const struct iovec *parts, int count, off_t at), file, parts, count, at)
WRAP(ssize_t, pwritev64, 1, (int file, const struct iovec *parts, int count, off64_t at), file, parts, count, at)
WRAP(int, fsync, 0, (int file), file)
WRAP(int, fdatasync, 0, (int file), file)
