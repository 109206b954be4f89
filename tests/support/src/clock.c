/* A wall clock that a test steps: put before the C library with LD_PRELOAD, it
 * adds the seconds that stand in the file STEPPED_CLOCK. The monotonic clock goes
 * on as it is. Takes no memory and calls nothing that could: allocators ask for the
 * time while they start. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static const char *step_file(void) {
    static const char name[] = "STEPPED_CLOCK=";
    for (char **entry = environ; entry && *entry; entry++) {
        size_t i = 0;
        while (name[i] && (*entry)[i] == name[i]) i++;
        if (!name[i]) return *entry + i;
    }
    return NULL;
}

static time_t step(void) {
    const char *path = step_file();
    int file = path ? syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return 0;
    char text[32];
    ssize_t length = syscall(SYS_read, file, text, sizeof text - 1);
    syscall(SYS_close, file);
    text[length > 0 ? length : 0] = 0;
    return strtol(text, NULL, 10);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += step();
    return result;
}

int gettimeofday(struct timeval *now, void *zone) {
    (void)zone;
    struct timespec exact;
    int result = clock_gettime(CLOCK_REALTIME, &exact);
    if (result == 0) {
        now->tv_sec = exact.tv_sec;
        now->tv_usec = exact.tv_nsec / 1000;
    }
    return result;
}

time_t time(time_t *copy) {
    struct timespec exact = {0, 0};
    clock_gettime(CLOCK_REALTIME, &exact);
    if (copy) *copy = exact.tv_sec;
    return exact.tv_sec;
}

/* Valkey from 8.1 on has a module look into the C library first, past this one. */
void *dlopen(const char *path, int flags) {
    void *(*next)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
    return next(path, flags & ~RTLD_DEEPBIND);
}
