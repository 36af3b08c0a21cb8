// Sends prepared Kafka requests over many connections and measures the responses; benchmarks/comparison/load.py is its caller.
//
//   load PLAN          run the plan (its format is in load.py); writes "begin", "end" and a line of JSON
//   load --echo SIZE   answer each request with its correlation id and SIZE zero bytes; writes its port
//
// One thread and one epoll loop. A request is sent as soon as the connection has fewer than in_flight outstanding (closed
// loop), or when it is due (open loop: its latency counts from then, also if it could only be sent later).

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum {
  BACKLOG = 40,              // connections that wait to be accepted; Kafka's backlog is 50, and beyond it each waits for a second
  ACCEPTED_US = 5000,        // by when a server has accepted those
  HEAD = 256,                // bytes of a response that a step may look at
  SCRATCH = 1 << 18,
  EVENTS = 256,
  BUCKETS = 64 * 128,        // each less than one percent of its value
  CODES = 256,               // Kafka's error codes -1 to 254
  SILENT_S = 60,             // no response for so long: the run has failed
};

static const uint64_t SECOND = 1000000000, INTERVAL = 250000000;
static const uint64_t TICK = 250000;  // of the open loop: to wake for each request would take most of a core

struct step {
  uint8_t *frame;            // size, api key, version, correlation id, ...
  uint32_t size;
  int32_t error_at;          // of an int16 in the response, counted from its correlation id; -1: none
  int32_t take_at;           // of bytes that a later request needs; -1: none
  uint32_t take_size, put_step, put_at;
};

struct connection {
  int fd;
  void *tls;                          // of OpenSSL; none without TLS
  uint32_t steps;
  struct step *step;
  uint64_t sent, received, due;       // requests; due: of the open loop
  uint64_t *sent_ns;                  // when each outstanding request was sent or due: a ring of in_flight
  uint64_t cycle_ns;                  // when the first step was sent
  uint8_t *out;
  size_t out_size, out_sent, out_room;
  uint8_t head[HEAD + 4];             // of the response that is being read, its size included
  uint32_t head_size, left;           // left: bytes of it beyond the head
};

struct histogram {
  uint64_t count[BUCKETS], total, max_ns;
};

static struct connection *connections;
static uint32_t count, in_flight, warm_up_ms, duration_ms;
static uint64_t rate_mhz, start_ns, begin_ns, end_ns;
static struct histogram latency, cycles;
static uint64_t requests, bytes, errors[CODES], *by_interval;
static uint32_t intervals;
static int poll_fd;
static uint8_t scratch[SCRATCH];

static void fail(const char *what) {
  fprintf(stderr, "load: %s%s%s\n", what, errno ? ": " : "", errno ? strerror(errno) : "");
  exit(1);
}

static void *allocate(size_t size) {
  void *memory = calloc(1, size ? size : 1);
  if (!memory) fail("memory");
  return memory;
}

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

static uint32_t get32(const uint8_t *at) {
  return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void put32(uint8_t *at, uint32_t value) {
  at[0] = value >> 24, at[1] = value >> 16, at[2] = value >> 8, at[3] = value;
}

// Values below 128 have a bucket each, then every power of two has 128.
static uint32_t bucket_of(uint64_t ns) {
  if (ns < 128) return (uint32_t)ns;
  uint32_t shift = 56 - (uint32_t)__builtin_clzll(ns);
  return (shift + 1) * 128 + (uint32_t)(ns >> shift) - 128;
}

static uint64_t lower_bound(uint32_t bucket) {
  return bucket < 128 ? bucket : (uint64_t)(bucket % 128 + 128) << (bucket / 128 - 1);
}

static void add(struct histogram *histogram, uint64_t ns) {
  histogram->count[bucket_of(ns)]++;
  histogram->total++;
  if (ns > histogram->max_ns) histogram->max_ns = ns;
}

static double quantile_us(const struct histogram *histogram, double quantile) {
  uint64_t seen = 0;
  for (uint32_t bucket = 0; bucket < BUCKETS; bucket++) {
    seen += histogram->count[bucket];
    if (seen && (double)seen >= quantile * (double)histogram->total) return (double)lower_bound(bucket) / 1000;
  }
  return 0;
}

static uint8_t *read_file(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END)) fail(path);
  *size = (size_t)ftell(file);
  rewind(file);
  uint8_t *data = allocate(*size);
  if (fread(data, 1, *size, file) != *size) fail(path);
  fclose(file);
  return data;
}

static uint32_t take32(uint8_t **at, const uint8_t *end) {
  errno = 0;
  if (end - *at < 4) fail("the plan is cut off");
  *at += 4;
  return get32(*at - 4);
}

static void read_step(struct step *step, uint8_t **at, const uint8_t *end) {
  step->size = take32(at, end);
  step->error_at = (int32_t)take32(at, end);
  step->take_at = (int32_t)take32(at, end);
  step->take_size = take32(at, end);
  step->put_step = take32(at, end);
  step->put_at = take32(at, end);
  step->frame = *at;
  if (step->size < 12 || (size_t)(end - *at) < step->size) fail("the plan is cut off");
  if (step->error_at + 2 > HEAD || step->take_at + (int64_t)step->take_size > HEAD) fail("too far in the response");
  *at += step->size;
}

// OpenSSL 3, which is needed for TLS alone, and only when the program runs: there may be no headers of it.
enum { MODE = 33, PARTIAL_WRITES = 1, MOVING_BUFFER = 2, WANT_READ = 2, WANT_WRITE = 3, ENDED = 6 };

static struct {
  void *context;
  const void *(*method)(void);
  void *(*new_context)(const void *);
  long (*control)(void *, int, long, void *);
  void *(*new)(void *);
  int (*set_fd)(void *, int);
  int (*connect)(void *);
  int (*read)(void *, void *, int);
  int (*write)(void *, const void *, int);
  int (*error)(const void *, int);
} tls;

static void load_tls(void) {
  void *library = dlopen("libssl.so.3", RTLD_NOW);
  if (!library) fail(dlerror());
  const char *names[] = {"TLS_client_method", "SSL_CTX_new", "SSL_CTX_ctrl", "SSL_new", "SSL_set_fd",
                         "SSL_connect", "SSL_read", "SSL_write", "SSL_get_error"};
  void **functions = (void **)&tls.method;
  for (size_t each = 0; each < sizeof names / sizeof *names; each++)
    if (!(functions[each] = dlsym(library, names[each]))) fail(names[each]);
  if (!(tls.context = tls.new_context(tls.method()))) fail("TLS");
  tls.control(tls.context, MODE, PARTIAL_WRITES | MOVING_BUFFER, NULL);
}

static void *begin_tls(int fd) {
  void *one = tls.new(tls.context);
  if (!one || !tls.set_fd(one, fd) || tls.connect(one) != 1) fail("TLS handshake");
  return one;
}

// As recv and send: -1 with EAGAIN if it would block.
static ssize_t tls_result(const void *one, int result) {
  if (result > 0) return result;
  int error = tls.error(one, result);
  errno = error == WANT_READ || error == WANT_WRITE ? EAGAIN : EPROTO;
  return error == ENDED ? 0 : -1;
}

static ssize_t get(const struct connection *one, void *to, size_t size) {
  return one->tls ? tls_result(one->tls, tls.read(one->tls, to, (int)size)) : recv(one->fd, to, size, 0);
}

static ssize_t put(const struct connection *one, const void *from, size_t size) {
  return one->tls ? tls_result(one->tls, tls.write(one->tls, from, (int)size)) : send(one->fd, from, size, MSG_NOSIGNAL);
}

static int connect_to(uint32_t address, uint16_t port) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(address)};
  int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to)) fail("connect");
  if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on)) fail("socket");
  return fd;
}

static void watch(struct connection *connection, int operation, uint32_t events) {
  struct epoll_event event = {.events = events, .data.ptr = connection};
  if (epoll_ctl(poll_fd, operation, connection->fd, &event)) fail("epoll_ctl");
}

static void read_plan(const char *path) {
  size_t size;
  uint8_t *at = read_file(path, &size), *end = at + size;
  count = take32(&at, end);
  in_flight = take32(&at, end);
  warm_up_ms = take32(&at, end);
  duration_ms = take32(&at, end);
  rate_mhz = (uint64_t)take32(&at, end) << 32;
  rate_mhz |= take32(&at, end);
  uint32_t with_tls = take32(&at, end);
  if (with_tls) load_tls();
  connections = allocate(count * sizeof *connections);
  for (struct connection *one = connections; one < connections + count; one++) {
    uint32_t address = take32(&at, end), port = take32(&at, end);
    one->steps = take32(&at, end);
    one->step = allocate(one->steps * sizeof *one->step);
    one->sent_ns = allocate(in_flight * sizeof *one->sent_ns);
    for (uint32_t step = 0; step < one->steps; step++) read_step(&one->step[step], &at, end);
    one->fd = connect_to(address, (uint16_t)port);
    if (with_tls) one->tls = begin_tls(one->fd);
    if (fcntl(one->fd, F_SETFL, O_NONBLOCK)) fail("socket");
    if ((one - connections) % BACKLOG == BACKLOG - 1) usleep(ACCEPTED_US);
    watch(one, EPOLL_CTL_ADD, EPOLLIN);
  }
}

static void flush(struct connection *one) {
  while (one->out_sent < one->out_size) {
    ssize_t sent = put(one, one->out + one->out_sent, one->out_size - one->out_sent);
    if (sent < 0 && errno == EAGAIN) {
      watch(one, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
      return;
    }
    if (sent < 0) fail("send");
    one->out_sent += (size_t)sent;
  }
  one->out_size = one->out_sent = 0;
}

static void send_next(struct connection *one, uint64_t since_ns) {
  struct step *step = &one->step[one->sent % one->steps];
  if (one->out_size + step->size > one->out_room) {
    one->out_room = 2 * (one->out_size + step->size);
    if (!(one->out = realloc(one->out, one->out_room))) fail("memory");
  }
  put32(step->frame + 8, (uint32_t)one->sent);
  memcpy(one->out + one->out_size, step->frame, step->size);
  one->out_size += step->size;
  if (one->sent % one->steps == 0) one->cycle_ns = since_ns;
  one->sent_ns[one->sent++ % in_flight] = since_ns;
}

// When request number ``sent`` of the connection is due: all connections take turns.
static uint64_t due_ns(const struct connection *one) {
  uint64_t number = one->sent * count + (uint64_t)(one - connections);
  return start_ns + (uint64_t)((__uint128_t)number * SECOND * 1000 / rate_mhz);
}

static void fill(struct connection *one, uint64_t at_ns) {
  while (at_ns < end_ns && one->sent - one->received < in_flight) {
    if (rate_mhz && one->sent == one->due) break;
    send_next(one, rate_mhz ? due_ns(one) : at_ns);
  }
  if (one->out_sent == 0) flush(one);
}

static void received(struct connection *one, uint64_t at_ns) {
  const struct step *step = &one->step[one->received % one->steps];
  const uint8_t *response = one->head + 4;
  uint32_t size = get32(one->head);
  uint64_t since_ns = one->sent_ns[one->received % in_flight];
  errno = 0;
  if (one->received == one->sent || get32(response) != (uint32_t)one->received) fail("a response to another request");
  if (step->take_at >= 0) {
    if (step->take_at + step->take_size > size) fail("a response is too short");
    memcpy(one->step[step->put_step].frame + step->put_at, response + step->take_at, step->take_size);
  }
  one->received++;
  if ((at_ns - start_ns) / INTERVAL < intervals) by_interval[(at_ns - start_ns) / INTERVAL]++;
  if (since_ns < begin_ns || at_ns > end_ns) return;
  requests++;
  bytes += size + 4;
  add(&latency, at_ns - since_ns);
  if (one->received % one->steps == 0 && one->cycle_ns >= begin_ns) add(&cycles, at_ns - one->cycle_ns);
  if (step->error_at >= 0) {
    if (step->error_at + 2u > size) fail("a response is too short");
    int16_t code = (int16_t)(response[step->error_at] << 8 | response[step->error_at + 1]);
    if (code) errors[code >= -1 && code < CODES - 1 ? code + 1 : CODES - 1]++;
  }
}

// The head of each response is kept; of the rest only the number of bytes counts.
static void feed(struct connection *one, const uint8_t *data, size_t size, uint64_t at_ns) {
  while (size) {
    uint32_t wanted = 4;
    if (one->head_size >= 4) {
      uint32_t body = get32(one->head);
      wanted = 4 + (body < HEAD ? body : HEAD);
    }
    if (one->head_size < wanted) {
      uint32_t part = wanted - one->head_size < size ? wanted - one->head_size : (uint32_t)size;
      memcpy(one->head + one->head_size, data, part);
      one->head_size += part, data += part, size -= part;
      if (one->head_size == 4) {
        errno = 0;
        if (get32(one->head) < 4) fail("not a response");
        continue;
      }
      if (one->head_size < wanted) return;
      if (wanted > 4) one->left = get32(one->head) + 4 - wanted;
    }
    uint32_t part = one->left < size ? one->left : (uint32_t)size;
    one->left -= part, data += part, size -= part;
    if (one->head_size > 4 && !one->left) {
      received(one, at_ns);
      one->head_size = 0;
    }
  }
}

static int readable(struct connection *one) {
  ssize_t size;
  int any = 0;
  do {
    size = get(one, scratch, SCRATCH);
    if (size < 0 && errno == EAGAIN) break;
    if (size < 0) fail("recv");
    errno = 0;
    if (!size) fail("the server closed a connection");
    feed(one, scratch, (size_t)size, now());
    any = 1;
  } while (size == SCRATCH || one->tls);  // more may be decrypted already
  return any;
}

static void arm(int timer, uint64_t at_ns) {
  struct itimerspec when = {.it_value = {(time_t)(at_ns / SECOND), (long)(at_ns % SECOND)}};
  if (timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL)) fail("timerfd");
}

// Mark what is due by now, and return when the next request is.
static uint64_t all_due(uint64_t at_ns, uint64_t *number) {
  for (;; ++*number) {
    uint64_t next_ns = start_ns + (uint64_t)((__uint128_t)*number * SECOND * 1000 / rate_mhz);
    if (next_ns > at_ns || next_ns >= end_ns) return next_ns;
    struct connection *one = &connections[*number % count];
    one->due++;
    fill(one, at_ns);
  }
}

static uint64_t earliest(uint64_t a, uint64_t b) { return a < b ? a : b; }

static uint64_t latest(uint64_t a, uint64_t b) { return a > b ? a : b; }

static void run(void) {
  struct epoll_event events[EVENTS];
  struct epoll_event timed = {.events = EPOLLIN, .data.ptr = NULL};
  int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
  if (timer < 0 || epoll_ctl(poll_fd, EPOLL_CTL_ADD, timer, &timed)) fail("timerfd");
  uint64_t number = 0, expired, heard_ns = start_ns, armed_ns = 0;
  int begun = 0;
  if (!rate_mhz)
    for (uint32_t each = 0; each < count; each++) fill(&connections[each], now());
  for (;;) {
    uint64_t at_ns = now();
    if (!begun && at_ns >= begin_ns) begun = puts("begin") >= 0 && !fflush(stdout);
    if (at_ns >= end_ns) break;
    uint64_t next_ns = rate_mhz ? latest(all_due(at_ns, &number), at_ns + TICK) : end_ns;
    if (armed_ns <= at_ns) {
      armed_ns = earliest(earliest(next_ns, end_ns), begun ? end_ns : begin_ns);
      arm(timer, armed_ns);
    }
    int ready = epoll_wait(poll_fd, events, EVENTS, -1);
    if (ready < 0 && errno != EINTR) fail("epoll_wait");
    for (int each = 0; each < ready; each++) {
      struct connection *one = events[each].data.ptr;
      if (!one) {
        if (read(timer, &expired, sizeof expired) < 0 && errno != EAGAIN) fail("timerfd");
        continue;
      }
      if (events[each].events & EPOLLOUT) {
        watch(one, EPOLL_CTL_MOD, EPOLLIN);
        flush(one);
      }
      if (events[each].events & ~EPOLLOUT && readable(one)) {
        heard_ns = now();
        fill(one, heard_ns);
      }
    }
    errno = 0;
    if (now() - heard_ns > SILENT_S * SECOND) fail("no response for a minute");
  }
  puts("end");
  fflush(stdout);
}

static void print_histogram(const char *name, const struct histogram *histogram) {
  printf("\"%s\": {\"count\": %llu, \"p50\": %.1f, \"p99\": %.1f, \"p999\": %.1f, \"max\": %.1f}", name,
         (unsigned long long)histogram->total, quantile_us(histogram, 0.5), quantile_us(histogram, 0.99),
         quantile_us(histogram, 0.999), (double)histogram->max_ns / 1000);
}

static void print_result(void) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  double cpu_s = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                 (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
  printf("{\"requests\": %llu, \"bytes\": %llu, \"seconds\": %.3f, \"own_cpu_s\": %.3f, ", (unsigned long long)requests,
         (unsigned long long)bytes, (double)duration_ms / 1000, cpu_s);
  print_histogram("latency_us", &latency);
  printf(", ");
  print_histogram("cycle_us", &cycles);
  printf(", \"errors\": {");
  const char *separator = "";
  for (int code = 0; code < CODES; code++)
    if (errors[code]) printf("%s\"%d\": %llu", separator, code - 1, (unsigned long long)errors[code]), separator = ", ";
  printf("}, \"by_interval\": [");
  for (uint32_t each = 0; each < intervals; each++)
    printf("%s%llu", each ? ", " : "", (unsigned long long)by_interval[each]);
  printf("]}\n");
}

static void run_plan(const char *path) {
  struct rlimit files = {0, 0};
  if (!getrlimit(RLIMIT_NOFILE, &files)) files.rlim_cur = files.rlim_max, setrlimit(RLIMIT_NOFILE, &files);
  prctl(PR_SET_TIMERSLACK, 1000);
  read_plan(path);
  intervals = (uint32_t)(((uint64_t)warm_up_ms + duration_ms) * 1000000 / INTERVAL);
  by_interval = allocate(intervals * sizeof *by_interval);
  start_ns = now();
  begin_ns = start_ns + (uint64_t)warm_up_ms * 1000000;
  end_ns = begin_ns + (uint64_t)duration_ms * 1000000;
  run();
  print_result();
}

// A request's frame is its size, 4 bytes, the correlation id, and the rest.
static void echo_frames(struct connection *one, const uint8_t *data, size_t size, uint32_t response_size) {
  while (size) {
    if (one->head_size < 12) {
      one->head[one->head_size++] = *data++, size--;
      if (one->head_size == 12) one->left = get32(one->head) - 8;
    } else {
      uint32_t part = one->left < size ? one->left : (uint32_t)size;
      one->left -= part, data += part, size -= part;
    }
    if (one->head_size == 12 && !one->left) {
      size_t whole = 8 + (size_t)response_size;
      if (one->out_size + whole > one->out_room) {
        one->out_room = 2 * (one->out_size + whole);
        if (!(one->out = realloc(one->out, one->out_room))) fail("memory");
      }
      memset(one->out + one->out_size, 0, whole);
      put32(one->out + one->out_size, 4 + response_size);
      memcpy(one->out + one->out_size + 4, one->head + 8, 4);
      one->out_size += whole;
      one->head_size = 0;
    }
  }
}

static void echo(uint32_t response_size) {
  struct sockaddr_in local = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof local;
  struct connection listener = {.fd = socket(AF_INET, SOCK_STREAM, 0)};
  if (listener.fd < 0 || bind(listener.fd, (struct sockaddr *)&local, size) || listen(listener.fd, 4096) ||
      getsockname(listener.fd, (struct sockaddr *)&local, &size))
    fail("listen");
  printf("%d\n", ntohs(local.sin_port));
  fflush(stdout);
  watch(&listener, EPOLL_CTL_ADD, EPOLLIN);
  for (;;) {
    struct epoll_event events[EVENTS];
    int ready = epoll_wait(poll_fd, events, EVENTS, -1);
    for (int each = 0; each < ready; each++) {
      struct connection *one = events[each].data.ptr;
      if (one == &listener) {
        one = allocate(sizeof *one);
        int on = 1;
        if ((one->fd = accept4(listener.fd, NULL, NULL, SOCK_NONBLOCK)) < 0) fail("accept");
        setsockopt(one->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        watch(one, EPOLL_CTL_ADD, EPOLLIN);
        continue;
      }
      if (events[each].events & EPOLLOUT) watch(one, EPOLL_CTL_MOD, EPOLLIN);
      ssize_t got = recv(one->fd, scratch, SCRATCH, 0);
      if (got == 0 || (got < 0 && errno != EAGAIN)) {
        close(one->fd);
        free(one->out);
        free(one);
        continue;
      }
      if (got > 0) echo_frames(one, scratch, (size_t)got, response_size);
      flush(one);
    }
  }
}

int main(int arguments, char **argument) {
  if ((poll_fd = epoll_create1(EPOLL_CLOEXEC)) < 0) fail("epoll");
  if (arguments == 3 && !strcmp(argument[1], "--echo"))
    echo((uint32_t)strtoul(argument[2], NULL, 10));
  else if (arguments == 2)
    run_plan(argument[1]);
  else
    return fprintf(stderr, "usage: load PLAN | load --echo SIZE\n"), 2;
  return 0;
}
