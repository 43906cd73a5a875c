/* Inject a fault at the Nth call that changes something under one folder.
 *
 * Preloaded into a process, it replaces the calls of libc that change files. Nothing happens until
 * shim_arm() names a folder; from then on each call that touches the folder is counted, and call
 * number `at` has the fault: the process is killed before it, after it or in the middle of
 * a write, the call fails with EIO or ENOSPC (once, or from then on), or the write is short.
 *
 * It has two results for the harness. The report is in shared memory, so it outlives a killed
 * process: the kind of each call, and which call had the fault. The stable folder holds what a disk
 * would preserve if the power failed now: one file per inode, its content (or, for a folder,
 * its list of names) when it was last synced.
 *
 * Not covered: writes through mmap (SQLite's -shm, which is rebuilt anyway) and calls that libc makes
 * to itself, such as fopen's.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* The numbers of both enums and the layout of struct report are repeated in forkserver.py. */
enum fault {
    NOTHING, KILL_BEFORE, KILL_AFTER, TORN_WRITE,
    EIO_ONCE, EIO_STICKY, ENOSPC_ONCE, ENOSPC_STICKY, SHORT_WRITE
};
/* Which faults a call can have except a kill: fail, run out of space, be split. A FAR call may
 * change something outside of the folder. */
enum kind { QUIET = 1, FAILS = 2, GROWS = 4, WRITES = 8, SYNCS = 16, FAR = 32 };

#define TRACED 8192
struct report {
    int64_t calls, fired;
    char call[32], path[256];
    uint8_t kinds[TRACED];
};

static struct report *report;
static char folder[PATH_MAX], stable[PATH_MAX];
static int64_t fault_at;
static enum fault fault;
static ino_t spoiled;

void shim_arm(struct report *shared, const char *under, const char *keep_in, int64_t at, int what)
{
    report = shared;
    snprintf(folder, sizeof folder, "%s", under);
    snprintf(stable, sizeof stable, "%s", keep_in);
    fault_at = at;
    fault = what;
    spoiled = 0;
}

/* Before and after each call the harness may read the folder: send it a byte, wait for one. */
static int to_harness = -1, from_harness = -1;

void shim_watched(int to, int from)
{
    to_harness = to;
    from_harness = from;
}

static void be_looked_at(void)
{
    char byte = 0;
    int error = errno;
    if (to_harness >= 0 && syscall(SYS_write, to_harness, &byte, 1) == 1)
        syscall(SYS_read, from_harness, &byte, 1);
    errno = error;
}

/* ---- which calls touch the folder ---- */

static __thread char place[2 * PATH_MAX + 2];

static int inside(void)
{
    size_t length = strlen(folder);
    return strncmp(place, folder, length) == 0 && (place[length] == '/' || place[length] == 0);
}

static int by_fd(int fd)
{
    char link[64];
    if (!folder[0]) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, place, PATH_MAX);
    if (length < 0) return 0;
    place[length] = 0;
    return inside();
}

static int by_path(int dir, const char *path)
{
    if (!folder[0] || !path) return 0;
    if (path[0] == '/') {
        snprintf(place, sizeof place, "%s", path);
        return inside();
    }
    char base[PATH_MAX];
    if (dir == AT_FDCWD) {
        if (!getcwd(base, sizeof base)) return 0;
    } else {
        by_fd(dir);
        snprintf(base, sizeof base, "%s", place);
    }
    snprintf(place, sizeof place, "%s/%s", base, path);
    return inside();
}

/* ---- counting calls and injecting the fault ---- */

enum verdict { PASS, THEN_DIE, HALF_THEN_DIE, HALF, FAIL };

__attribute__((noreturn)) static void die(void)
{
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

static int suffers(int kind)
{
    switch (fault) {
    case NOTHING: return 0;
    case KILL_BEFORE: case KILL_AFTER: return 1;
    case TORN_WRITE: case SHORT_WRITE: return kind & WRITES;
    case EIO_ONCE: case EIO_STICKY: return kind & FAILS;
    case ENOSPC_ONCE: case ENOSPC_STICKY: return kind & GROWS;
    }
    return 0;
}

static int due(int64_t number)
{
    return number == fault_at || (number > fault_at && (fault == EIO_STICKY || fault == ENOSPC_STICKY));
}

static enum verdict meet(const char *call, int kind)
{
    be_looked_at();
    int64_t number = __atomic_add_fetch(&report->calls, 1, __ATOMIC_SEQ_CST);
    if (number <= TRACED) report->kinds[number - 1] = kind;
    if (!due(number) || !suffers(kind)) return PASS;
    if (!report->fired) {
        snprintf(report->call, sizeof report->call, "%s", call);
        snprintf(report->path, sizeof report->path, "%s", place);
        report->fired = number;
    }
    switch (fault) {
    case KILL_BEFORE: die();
    case KILL_AFTER: return THEN_DIE;
    case TORN_WRITE: return HALF_THEN_DIE;
    case SHORT_WRITE: return HALF;
    case EIO_ONCE: case EIO_STICKY: errno = EIO; return FAIL;
    default: errno = ENOSPC; return FAIL;
    }
}

static void past(enum verdict verdict)
{
    if (verdict == THEN_DIE || verdict == HALF_THEN_DIE) die();
    be_looked_at();
}

/* For calls outside of libc: requests of a program to a remote storage. */
int shim_meet(const char *call) { return folder[0] ? meet(call, FAR) : PASS; }
void shim_past(int verdict) { if (folder[0]) past(verdict); }

#define REAL(name) \
    static typeof(name) *real; \
    if (!real) real = dlsym(RTLD_NEXT, #name)

#define GUARD(name, kind, touches, ...) \
    REAL(name); \
    if (!(touches)) return real(__VA_ARGS__); \
    enum verdict verdict = meet(#name, kind); \
    if (verdict == FAIL) return -1; \
    typeof(real(__VA_ARGS__)) result = real(__VA_ARGS__); \
    past(verdict); \
    return result

/* ---- writes ---- */

/* `half` is the same write with half the bytes. Rewritten pages are dirty again: see sync_guard. */
#define GUARD_WRITE(name, fd, half, ...) \
    REAL(name); \
    if (!by_fd(fd)) return real(__VA_ARGS__); \
    enum verdict verdict = meet(#name, FAILS | GROWS | WRITES); \
    if (verdict == FAIL) return -1; \
    freshen(fd); \
    ssize_t result = verdict == HALF || verdict == HALF_THEN_DIE ? half : real(__VA_ARGS__); \
    past(verdict); \
    return result

/* 0 for anything but a file. */
static ino_t inode(int fd)
{
    struct stat seen;
    return fstat(fd, &seen) == 0 && S_ISREG(seen.st_mode) ? seen.st_ino : 0;
}

static void freshen(int fd)
{
    if (spoiled && spoiled == inode(fd)) spoiled = 0;
}

/* A write of one byte cannot be halved: it is completed, and a torn one then kills. */
static size_t halved(size_t size) { return size > 1 ? size / 2 : size; }

ssize_t write(int fd, const void *data, size_t size)
{
    GUARD_WRITE(write, fd, real(fd, data, halved(size)), fd, data, size);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at)
{
    GUARD_WRITE(pwrite, fd, real(fd, data, halved(size), at), fd, data, size, at);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at)
{
    GUARD_WRITE(pwrite64, fd, real(fd, data, halved(size), at), fd, data, size, at);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    struct iovec first = {count ? parts->iov_base : 0, count ? halved(parts->iov_len) : 0};
    GUARD_WRITE(writev, fd, real(fd, &first, 1), fd, parts, count);
}

/* ---- syncs, and what a power cut would leave ---- */

static void keep_names(int fd, FILE *out)
{
    DIR *dir = fdopendir(openat(fd, ".", O_RDONLY | O_DIRECTORY));
    struct dirent *entry;
    while (dir && (entry = readdir(dir)))
        fprintf(out, "%c %lu %s\n", entry->d_type == DT_DIR ? 'd' : 'f', (unsigned long)entry->d_ino, entry->d_name);
    if (dir) closedir(dir);
}

/* Read through the caller's descriptor: closing another one would drop SQLite's locks. */
static void keep_content(int fd, FILE *out)
{
    char page[65536];
    off_t at = 0;
    ssize_t size;
    int own = fcntl(fd, F_GETFL) & O_ACCMODE;
    if (own == O_WRONLY) {
        snprintf(page, sizeof page, "/proc/self/fd/%d", fd);
        fd = open(page, O_RDONLY);
    }
    for (; (size = pread(fd, page, sizeof page, at)) > 0; at += size) fwrite(page, 1, size, out);
    if (own == O_WRONLY) syscall(SYS_close, fd); /* not a call of the program */
}

static void keep(int fd)
{
    char path[PATH_MAX + 32];
    struct stat seen;
    if (!stable[0] || fstat(fd, &seen) != 0) return;
    snprintf(path, sizeof path, "%s/%lu", stable, (unsigned long)seen.st_ino);
    FILE *out = fopen(path, "w");
    if (!out) die(); /* without the stable folder a correct writer would look wrong */
    if (S_ISDIR(seen.st_mode)) keep_names(fd, out);
    else keep_content(fd, out);
    fclose(out);
}

/* After a failed sync the kernel may mark the pages clean, and the next sync succeeds without having
 * written them. So a file stays spoiled until it is written again; a folder's names are in the file
 * system's journal and are not lost that way. */
static int sync_guard(const char *name, int fd, int (*real)(int))
{
    if (!by_fd(fd)) return real(fd);
    enum verdict verdict = meet(name, FAILS | GROWS | SYNCS);
    if (verdict == FAIL) {
        int error = errno;
        spoiled = inode(fd);
        errno = error;
        return -1;
    }
    int result = real(fd);
    if (result == 0 && (!spoiled || spoiled != inode(fd))) keep(fd);
    past(verdict);
    return result;
}

int fsync(int fd)
{
    REAL(fsync);
    return sync_guard("fsync", fd, real);
}

int fdatasync(int fd)
{
    REAL(fdatasync);
    return sync_guard("fdatasync", fd, real);
}

/* ---- PostgreSQL on this machine: each message that is sent to it is a call ---- */

/* The number of messages in one send() varies: the library sends what it has when the socket is
 * ready. So a send is split, and the kill falls between two messages. A flush does not count: it
 * occurs at random, and requests nothing. */
#define MOST_FDS 1024
static struct { uint32_t left; int begun, counts; enum verdict verdict; } sent[MOST_FDS];

static int is_local(int fd)
{
    struct sockaddr_storage name;
    socklen_t size = sizeof name;
    return folder[0] && fd < MOST_FDS && getsockname(fd, (struct sockaddr *)&name, &size) == 0
        && name.ss_family == AF_UNIX;
}

static uint32_t number(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | at[1] << 16 | at[2] << 8 | at[3];
}

/* The first message has no letter before its length, nor do requests that may precede it. */
static uint32_t length(int fd, const unsigned char *data)
{
    if (sent[fd].begun) return 1 + number(data + 1);
    sent[fd].begun = number(data + 4) >> 16 == 3;
    return number(data);
}

ssize_t send(int fd, const void *data, size_t size, int flags)
{
    REAL(send);
    if (!is_local(fd)) return real(fd, data, size, flags);
    size_t done = 0;
    while (done < size) {
        if (!sent[fd].left) {
            const unsigned char *message = (const unsigned char *)data + done;
            sent[fd].counts = !(sent[fd].begun && *message == 'H');
            if (sent[fd].counts) sent[fd].verdict = meet("send", FAR);
            sent[fd].left = length(fd, message);
        }
        size_t part = size - done < sent[fd].left ? size - done : sent[fd].left;
        ssize_t result = real(fd, (const char *)data + done, part, flags);
        if (result <= 0) return done ? (ssize_t)done : result;
        done += result;
        sent[fd].left -= result;
        if (!sent[fd].left && sent[fd].counts) past(sent[fd].verdict);
    }
    return done;
}

/* ---- opening and closing ---- */

static int changes(int flags) { return flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC); }
static int growth(int flags) { return flags & O_CREAT ? FAILS | GROWS : FAILS; }

#define MODE(flags) \
    mode_t mode = 0; \
    if (flags & (O_CREAT | __O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

int open(const char *path, int flags, ...)
{
    MODE(flags)
    GUARD(open, growth(flags), changes(flags) && by_path(AT_FDCWD, path), path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    MODE(flags)
    GUARD(open64, growth(flags), changes(flags) && by_path(AT_FDCWD, path), path, flags, mode);
}

int openat(int dir, const char *path, int flags, ...)
{
    MODE(flags)
    GUARD(openat, growth(flags), changes(flags) && by_path(dir, path), dir, path, flags, mode);
}

int openat64(int dir, const char *path, int flags, ...)
{
    MODE(flags)
    GUARD(openat64, growth(flags), changes(flags) && by_path(dir, path), dir, path, flags, mode);
}

int close(int fd)
{
    if (fd >= 0 && fd < MOST_FDS) memset(&sent[fd], 0, sizeof sent[fd]);
    GUARD(close, QUIET, by_fd(fd), fd);
}

/* ---- names ---- */

#define EITHER(d1, p1, d2, p2) (by_path(d1, p1) || by_path(d2, p2))

int rename(const char *from, const char *to)
{
    GUARD(rename, FAILS | GROWS, EITHER(AT_FDCWD, from, AT_FDCWD, to), from, to);
}

int renameat(int d1, const char *from, int d2, const char *to)
{
    GUARD(renameat, FAILS | GROWS, EITHER(d1, from, d2, to), d1, from, d2, to);
}

int renameat2(int d1, const char *from, int d2, const char *to, unsigned flags)
{
    GUARD(renameat2, FAILS | GROWS, EITHER(d1, from, d2, to), d1, from, d2, to, flags);
}

int link(const char *from, const char *to)
{
    GUARD(link, FAILS | GROWS, EITHER(AT_FDCWD, from, AT_FDCWD, to), from, to);
}

int linkat(int d1, const char *from, int d2, const char *to, int flags)
{
    GUARD(linkat, FAILS | GROWS, EITHER(d1, from, d2, to), d1, from, d2, to, flags);
}

int symlink(const char *target, const char *path)
{
    GUARD(symlink, FAILS | GROWS, by_path(AT_FDCWD, path), target, path);
}

int unlink(const char *path) { GUARD(unlink, FAILS, by_path(AT_FDCWD, path), path); }

int unlinkat(int dir, const char *path, int flags)
{
    GUARD(unlinkat, FAILS, by_path(dir, path), dir, path, flags);
}

int mkdir(const char *path, mode_t mode)
{
    GUARD(mkdir, FAILS | GROWS, by_path(AT_FDCWD, path), path, mode);
}

int mkdirat(int dir, const char *path, mode_t mode)
{
    GUARD(mkdirat, FAILS | GROWS, by_path(dir, path), dir, path, mode);
}

int rmdir(const char *path) { GUARD(rmdir, FAILS, by_path(AT_FDCWD, path), path); }

/* ---- sizes, modes, locks ---- */

int ftruncate(int fd, off_t size) { GUARD(ftruncate, FAILS, by_fd(fd), fd, size); }
int ftruncate64(int fd, off64_t size) { GUARD(ftruncate64, FAILS, by_fd(fd), fd, size); }

int truncate(const char *path, off_t size)
{
    GUARD(truncate, FAILS, by_path(AT_FDCWD, path), path, size);
}

int truncate64(const char *path, off64_t size)
{
    GUARD(truncate64, FAILS, by_path(AT_FDCWD, path), path, size);
}

int fallocate(int fd, int mode, off_t at, off_t size)
{
    GUARD(fallocate, FAILS | GROWS, by_fd(fd), fd, mode, at, size);
}

int fallocate64(int fd, int mode, off64_t at, off64_t size)
{
    GUARD(fallocate64, FAILS | GROWS, by_fd(fd), fd, mode, at, size);
}

/* These two return the error instead of setting errno. */
static int reserve(int fd, off_t at, off_t size)
{
    GUARD(posix_fallocate, FAILS | GROWS, by_fd(fd), fd, at, size);
}

int posix_fallocate(int fd, off_t at, off_t size)
{
    int result = reserve(fd, at, size);
    return result == -1 ? errno : result;
}

int posix_fallocate64(int fd, off64_t at, off64_t size) { return posix_fallocate(fd, at, size); }

int fchmod(int fd, mode_t mode) { GUARD(fchmod, FAILS, by_fd(fd), fd, mode); }
int chmod(const char *path, mode_t mode) { GUARD(chmod, FAILS, by_path(AT_FDCWD, path), path, mode); }

int fchmodat(int dir, const char *path, mode_t mode, int flags)
{
    GUARD(fchmodat, FAILS, by_path(dir, path), dir, path, mode, flags);
}

int fchown(int fd, uid_t owner, gid_t group) { GUARD(fchown, FAILS, by_fd(fd), fd, owner, group); }

int flock(int fd, int how)
{
    GUARD(flock, how & LOCK_UN ? QUIET : FAILS, by_fd(fd), fd, how);
}

/* SQLite changes its mapped -shm between two of these, so they are points worth a kill. */
static int locks(int what)
{
    return what == F_SETLK || what == F_SETLKW || what == F_OFD_SETLK || what == F_OFD_SETLKW;
}

#define ARGUMENT(what) \
    va_list rest; \
    va_start(rest, what); \
    void *argument = va_arg(rest, void *); \
    va_end(rest)

int fcntl(int fd, int what, ...)
{
    ARGUMENT(what);
    GUARD(fcntl, QUIET, locks(what) && by_fd(fd), fd, what, argument);
}

int fcntl64(int fd, int what, ...)
{
    ARGUMENT(what);
    GUARD(fcntl64, QUIET, locks(what) && by_fd(fd), fd, what, argument);
}
