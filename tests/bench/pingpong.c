/* Core-to-core latency: two pinned threads pass cache lines back and forth (see probe.py). */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#define LINES 64         /* a line's address decides which cache slice serves it: visit many, not one by luck */
#define CHECK_EVERY 4096 /* spins between two looks at the clock: no partner may keep us forever */

typedef struct {
    _Alignas(128) atomic_uint turn; /* alone on its line; 128 because neighbours are prefetched in pairs */
} Line;

typedef struct {
    Line lines[LINES];
    double deadline_s, *hop_ns;
    int cpus[2], chunks, round_trips, done;
} Table;

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static int pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

/* No pause instruction: it takes 140 cycles on recent Intel cores, as long as what is measured. */
static int await(Table *table, Line *line, unsigned turn) {
    for (unsigned spins = 1; atomic_load_explicit(&line->turn, memory_order_acquire) != turn; spins++)
        if (spins % CHECK_EVERY == 0 && now_s() > table->deadline_s) return 0;
    return 1;
}

/* One chunk on one line, seen from side 0 (which moves first) or 1; turns only ever grow. */
static int play(Table *table, int chunk, int side) {
    Line *line = &table->lines[chunk % LINES];
    unsigned turn = 2u * (chunk / LINES) * table->round_trips;
    for (int trip = 0; trip < table->round_trips; trip++, turn += 2) {
        if (side == 1 && !await(table, line, turn + 1)) return 0;
        atomic_store_explicit(&line->turn, turn + 1 + side, memory_order_release);
        if (side == 0 && !await(table, line, turn + 2)) return 0;
    }
    return 1;
}

static void *follow(void *argument) {
    Table *table = argument;
    if (pin(table->cpus[1])) return NULL;
    for (int chunk = 0; chunk < table->chunks && play(table, chunk, 1); chunk++) continue;
    return NULL;
}

static void *lead(void *argument) {
    Table *table = argument;
    if (pin(table->cpus[0])) return NULL;
    for (; table->done < table->chunks; table->done++) {
        double begun_s = now_s();
        if (!play(table, table->done, 0)) return NULL;
        table->hop_ns[table->done] = 1e9 * (now_s() - begun_s) / (2 * table->round_trips);
    }
    return NULL;
}

/* Fills hop_ns[chunks] with the mean ns of a one-way hop; returns how many chunks were done before the deadline.
   Both ends are threads of their own, so the caller's affinity stays as it is. */
int pingpong(int cpu_a, int cpu_b, int chunks, int round_trips, double limit_s, double *hop_ns) {
    Table table = {.cpus = {cpu_a, cpu_b}, .chunks = chunks, .round_trips = round_trips, .hop_ns = hop_ns};
    table.deadline_s = now_s() + limit_s;
    pthread_t threads[2];
    if (pthread_create(&threads[0], NULL, follow, &table)) return 0;
    int led = !pthread_create(&threads[1], NULL, lead, &table);
    if (led) pthread_join(threads[1], NULL);
    pthread_join(threads[0], NULL);
    return table.done;
}
