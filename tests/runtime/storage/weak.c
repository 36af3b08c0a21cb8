/* A weak file system: loaded with LD_PRELOAD, breaks what the words in WEAK say, for files below WEAK_UNDER. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int weak(const char *word) {
    const char *words = getenv("WEAK");
    return words && strcmp(words, word) == 0;
}

static int below(const char *path) {
    const char *under = getenv("WEAK_UNDER");
    return under && path && strncmp(path, under, strlen(under)) == 0;
}

static int below_fd(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    return below(path);
}

static int fails(int number) {
    errno = number;
    return -1;
}

int fsync(int fd) {
    struct stat found;
    if (weak("no-fsync") && below_fd(fd)) return fails(EIO);
    if (weak("no-directory-fsync") && below_fd(fd) && !fstat(fd, &found) && S_ISDIR(found.st_mode)) return fails(EINVAL);
    return NEXT(fsync)(fd);
}

int fdatasync(int fd) {
    if (weak("no-fsync") && below_fd(fd)) return fails(EIO);
    return NEXT(fdatasync)(fd);
}

int flock(int fd, int operation) {
    if (weak("no-flock") && below_fd(fd)) return fails(ENOLCK);
    if (weak("granted-flock") && below_fd(fd)) return 0;
    return NEXT(flock)(fd, operation);
}

static void copy(const char *from, const char *to, size_t bytes) {
    static char content[1 << 16];
    int source = NEXT(open)(from, O_RDONLY), target = NEXT(open)(to, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ssize_t length = read(source, content, sizeof content);
    if (length < 0) length = 0;
    size_t first = bytes < (size_t)length ? bytes : (size_t)length;
    if (write(target, content, first) >= 0) usleep(bytes ? 20000 : 0);
    if (write(target, content + first, length - first) >= 0) close(target);
    close(source);
}

int rename(const char *from, const char *to) {
    if (below(to) && access(to, F_OK) == 0) {
        if (weak("no-replace")) return fails(EEXIST);
        if (weak("copy")) return copy(from, to, 0), unlink(from);
        if (weak("torn")) return unlink(to), copy(from, to, 100), unlink(from);
        if (weak("missing")) unlink(to), usleep(1500000);
    }
    return NEXT(rename)(from, to);
}

void *mmap64(void *address, size_t length, int protection, int flags, int fd, off64_t offset) {
    if (weak("no-mapping") && (flags & MAP_SHARED) && fd >= 0 && below_fd(fd)) return fails(ENODEV), MAP_FAILED;
    return NEXT(mmap64)(address, length, protection, flags, fd, offset);
}

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    return mmap64(address, length, protection, flags, fd, offset);
}

/* "stale": what a name was when this process first opened it for reading, it stays. */
static struct { char path[512]; int fd; } names[64];
static int known;

static int stale(const char *path, int flags) {
    char link[64];
    for (int at = 0; at < known; at++) {
        if (strcmp(names[at].path, path)) continue;
        if (names[at].fd < 0) return fails(ENOENT);
        snprintf(link, sizeof link, "/proc/self/fd/%d", names[at].fd);
        return NEXT(open64)(link, flags);
    }
    int fd = NEXT(open64)(path, flags);
    if (known < 64) {
        snprintf(names[known].path, sizeof names[known].path, "%s", path);
        names[known++].fd = fd < 0 ? -1 : dup(fd);
    }
    return fd;
}

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    if (below(path)) {
        if (weak("no-exclusive")) flags &= ~O_EXCL;
        if (weak("no-append")) flags &= ~O_APPEND;
        if (weak("stale") && !(flags & (O_CREAT | O_DIRECTORY))) return stale(path, flags);
    }
    return NEXT(open64)(path, flags, mode);
}

int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    return open64(path, flags, mode);
}
