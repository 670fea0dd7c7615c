// Makes every fsync and fdatasync of a process take at least CW_FSYNC_US microseconds, so that figures taken on a
// memory file system are comparable from run to run. The real call is made first; only what is left of the time is slept.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

typedef int (*sync_call)(int);

static sync_call real_fsync, real_fdatasync;
static long fsync_us;

__attribute__((constructor)) static void prepare(void) {
  const char *text = getenv("CW_FSYNC_US");
  fsync_us = text ? strtol(text, NULL, 10) : 0;
  real_fsync = (sync_call)dlsym(RTLD_NEXT, "fsync");
  real_fdatasync = (sync_call)dlsym(RTLD_NEXT, "fdatasync");
}

static int stretched(sync_call real, int fd) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += (fsync_us % 1000000) * 1000;
  until.tv_sec += fsync_us / 1000000 + until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  int answer = real(fd);
  int error = errno;
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
  }
  errno = error;
  return answer;
}

int fsync(int fd) { return stretched(real_fsync, fd); }

int fdatasync(int fd) { return stretched(real_fdatasync, fd); }
