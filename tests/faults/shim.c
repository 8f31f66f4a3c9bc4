// Faults in the file operations of a process: preloaded, it counts the operations that change files below one folder and
// lets one of them, or all from one on, fail or kill the process. Disarmed until `fault_arm` is called.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum Fault { COUNT, FAIL, KILL, TORN };

static char folder[PATH_MAX];
static long count, at;
static int armed, fault, error, for_good, log_file = -1;

// Operations below `path` are counted from 1; number `number` fails with `code`, or kills the process before it (KILL)
// or in its middle (TORN: half of the bytes are written, anything else happens). `log` gets a line for each operation.
void fault_arm(const char *path, long number, int kind, int code, int persistent, int log) {
    snprintf(folder, sizeof folder, "%s", path);
    count = 0, at = number, fault = kind, error = code, for_good = persistent, log_file = log, armed = 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int below(const char *path) { return !strncmp(path, folder, strlen(folder)); }

static int absolute(int directory, const char *path, char *full) {
    char base[PATH_MAX] = "";
    if (path[0] == '/') return snprintf(full, PATH_MAX, "%s", path) > 0;
    if (directory == AT_FDCWD) {
        if (!getcwd(base, sizeof base)) return 0;
    } else {
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
        const ssize_t size = readlink(link, base, sizeof base - 1);
        if (size < 0) return 0;
        base[size] = 0;
    }
    return snprintf(full, PATH_MAX, "%s/%s", base, path) < PATH_MAX;
}

// 1: the operation must fail with errno set; 2: the process must die in its middle; 0: it goes on.
static int strikes(const char *name, const char *path) {
    if (!armed || !below(path)) return 0;
    count++;
    if (log_file >= 0) {
        const int saved = armed;
        armed = 0;
        dprintf(log_file, "%s %s\n", name, path);
        armed = saved;
    }
    if (count != at && !(for_good && count > at)) return 0;
    const int removes = !strcmp(name, "unlink") || !strcmp(name, "rmdir");
    if (fault == KILL) kill(getpid(), SIGKILL);
    if (fault == TORN) return 2;
    if (fault == FAIL && !(removes && error == ENOSPC)) {
        errno = error;
        return 1;
    }
    return 0;
}

static int strikes_at(const char *name, int directory, const char *path) {
    char full[PATH_MAX];
    return armed && absolute(directory, path, full) ? strikes(name, full) : 0;
}

static int strikes_file(const char *name, int file) {
    char link[64], path[PATH_MAX];
    if (!armed || file == log_file) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    const ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return strikes(name, path);
}

static void die(void) { kill(getpid(), SIGKILL); }

#define WRITES(flags) (((flags)&O_ACCMODE) != O_RDONLY || (flags)&O_CREAT)

#define OPEN(name, directory, ...)                                                  \
    mode_t mode = 0;                                                                \
    if (flags & (O_CREAT | O_TMPFILE)) {                                            \
        va_list rest;                                                               \
        va_start(rest, flags);                                                      \
        mode = va_arg(rest, mode_t);                                                \
        va_end(rest);                                                               \
    }                                                                               \
    const int struck = WRITES(flags) ? strikes_at("open", directory, path) : 0;     \
    if (struck == 1) return -1;                                                     \
    const int file = REAL(name)(__VA_ARGS__, flags, mode);                          \
    if (struck == 2) die();                                                         \
    return file;

int open(const char *path, int flags, ...) { OPEN(open, AT_FDCWD, path) }
int open64(const char *path, int flags, ...) { OPEN(open64, AT_FDCWD, path) }
int openat(int directory, const char *path, int flags, ...) { OPEN(openat, directory, directory, path) }
int openat64(int directory, const char *path, int flags, ...) { OPEN(openat64, directory, directory, path) }

#define FOPEN(name)                                                                 \
    const int struck = mode[0] != 'r' || strchr(mode, '+') ? strikes_at("open", AT_FDCWD, path) : 0; \
    if (struck == 1) return NULL;                                                   \
    FILE *file = REAL(name)(path, mode);                                            \
    if (struck == 2) die();                                                         \
    return file;

FILE *fopen(const char *path, const char *mode) { FOPEN(fopen) }
FILE *fopen64(const char *path, const char *mode) { FOPEN(fopen64) }

ssize_t write(int file, const void *bytes, size_t size) {
    const int struck = strikes_file("write", file);
    if (struck == 1) return -1;
    const ssize_t done = REAL(write)(file, bytes, struck == 2 ? size / 2 : size);
    if (struck == 2) die();
    return done;
}

#define PWRITE(name)                                                                \
    const int struck = strikes_file("write", file);                                 \
    if (struck == 1) return -1;                                                     \
    const ssize_t done = REAL(name)(file, bytes, struck == 2 ? size / 2 : size, offset); \
    if (struck == 2) die();                                                         \
    return done;

ssize_t pwrite(int file, const void *bytes, size_t size, off_t offset) { PWRITE(pwrite) }
ssize_t pwrite64(int file, const void *bytes, size_t size, off64_t offset) { PWRITE(pwrite64) }

ssize_t writev(int file, const struct iovec *parts, int number) {
    const int struck = strikes_file("write", file);
    if (struck == 1) return -1;
    const ssize_t done = REAL(writev)(file, parts, struck == 2 ? 1 : number);
    if (struck == 2) die();
    return done;
}

#define OTHER(type, name, label, strike, ...)                                       \
    const int struck = strike;                                                      \
    if (struck == 1) return -1;                                                     \
    const type done = REAL(name)(__VA_ARGS__);                                      \
    if (struck == 2) die();                                                         \
    return done;

ssize_t sendfile64(int out, int in, off64_t *offset, size_t size);
ssize_t sendfile(int out, int in, off_t *offset, size_t size) {
    OTHER(ssize_t, sendfile, "write", strikes_file("write", out), out, in, offset, size)
}
ssize_t sendfile64(int out, int in, off64_t *offset, size_t size) {
    OTHER(ssize_t, sendfile64, "write", strikes_file("write", out), out, in, offset, size)
}
ssize_t copy_file_range(int in, off64_t *from, int out, off64_t *to, size_t size, unsigned flags) {
    OTHER(ssize_t, copy_file_range, "write", strikes_file("write", out), in, from, out, to, size, flags)
}
int fsync(int file) { OTHER(int, fsync, "fsync", strikes_file("fsync", file), file) }
int fdatasync(int file) { OTHER(int, fdatasync, "fsync", strikes_file("fsync", file), file) }
int ftruncate(int file, off_t size) { OTHER(int, ftruncate, "truncate", strikes_file("truncate", file), file, size) }
int ftruncate64(int file, off64_t size) { OTHER(int, ftruncate64, "truncate", strikes_file("truncate", file), file, size) }
int rename(const char *from, const char *to) { OTHER(int, rename, "rename", strikes_at("rename", AT_FDCWD, to), from, to) }
int renameat(int a, const char *from, int b, const char *to) {
    OTHER(int, renameat, "rename", strikes_at("rename", b, to), a, from, b, to)
}
int link(const char *from, const char *to) { OTHER(int, link, "link", strikes_at("link", AT_FDCWD, to), from, to) }
int mkdir(const char *path, mode_t mode) { OTHER(int, mkdir, "mkdir", strikes_at("mkdir", AT_FDCWD, path), path, mode) }
int mkdirat(int directory, const char *path, mode_t mode) {
    OTHER(int, mkdirat, "mkdir", strikes_at("mkdir", directory, path), directory, path, mode)
}
int unlink(const char *path) { OTHER(int, unlink, "unlink", strikes_at("unlink", AT_FDCWD, path), path) }
int unlinkat(int directory, const char *path, int flags) {
    OTHER(int, unlinkat, "unlink", strikes_at("unlink", directory, path), directory, path, flags)
}
int rmdir(const char *path) { OTHER(int, rmdir, "rmdir", strikes_at("rmdir", AT_FDCWD, path), path) }
int chmod(const char *path, mode_t mode) { OTHER(int, chmod, "chmod", strikes_at("chmod", AT_FDCWD, path), path, mode) }
int fchmod(int file, mode_t mode) { OTHER(int, fchmod, "chmod", strikes_file("chmod", file), file, mode) }
