/* Max-min fair rates of activities that share links and cores, by progressive filling.
 *
 * All rates grow together, in proportion to weights, until an activity reaches its limit or a resource is full; who that
 * stops keeps its rate, and the others go on. The order of operations is part of the records: they are equal to the bit. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#define UNSETTLED (-1.0)
#define EMPTY_S 1e-9 /* core-seconds that rounding may leave in an empty bucket */

typedef struct Activity Activity;
typedef struct Resource Resource;
typedef struct Use Use;

/* What may come to an end: an activity, or the quota of a resource. */
typedef struct {
    double end_s;
    int64_t number;
    Py_ssize_t at; /* its place in the heap of ends; -1: it has none */
    int is_activity;
} End;

/* An activity as a user of a resource, in the list of the resource's users in the order of their starts. */
struct Use {
    Activity *activity;
    Resource *resource;
    Use *before, *after;
};

typedef struct {
    double cores, depth_s, left_s, used, since_s;
} Quota;

struct Resource {
    End end;
    double given, capacity; /* the capacity is what it gives at this moment: its quota's cores once that is used up */
    int has_quota;
    Quota quota;
    Use *first, *last;
    Py_ssize_t num_users;
    int64_t mark; /* the last search that has found it */
    int changed;  /* whether it is in the list of changed ones */
    int touched;
    double left, weight;
    Resource *older; /* all that there ever were, until the model is freed: activities may still point to them */
};

struct Activity {
    End end;
    PyObject *key, *then, *accounts; /* the last two are set by sharing.h: what follows, and bytes of its accounts */
    struct Activity **slot;          /* where its owner, which is then its key, keeps it; NULL: it is found by its key */
    double limit, weight, amount, left, since_s, rate;
    double ended_s; /* when it was complete; only if it is not running */
    double fair, most, stops_at;
    int running;
    int64_t mark;
    Py_ssize_t fresh_at; /* its place among the fresh ones; -1: none */
    Activity *before, *after; /* all activities in the order of their starts */
    Py_ssize_t num_uses;
    Use uses[];
};

/* Room for everything that one computation of rates needs: it never allocates, and so cannot fail. */
typedef struct {
    Activity **found, **limited, **settled;
    Resource **full, **filling, **lowest, **quotas;
    Py_ssize_t num_found, num_limited, num_settled, num_full, num_filling, num_lowest, num_quotas;
    Py_ssize_t next_limited;
} Room;

/* ---- sums as Python's sum() makes them ------------------------------------------------------------------------- */

typedef struct {
    double total, rest;
} Sum;

static inline void add_to(Sum *sum, double value) {
#if PY_VERSION_HEX >= 0x030C0000 /* from 3.12 on it compensates for rounding (Neumaier) */
    double total = sum->total + value;
    if (fabs(sum->total) >= fabs(value))
        sum->rest += (sum->total - total) + value;
    else
        sum->rest += (value - total) + sum->total;
    sum->total = total;
#else
    sum->total += value;
#endif
}

static inline double total_of(const Sum *sum) {
    return sum->rest && isfinite(sum->rest) ? sum->total + sum->rest : sum->total;
}

/* ---- resources ------------------------------------------------------------------------------------------------- */

static inline int is_bound(const Resource *resource) {
    return resource->capacity < INFINITY || resource->has_quota;
}

/* Book the use until now; returns whether anything is left. */
static int open_quota(Quota *quota, double now_s) {
    double left_s = quota->left_s + (quota->cores - quota->used) * (now_s - quota->since_s);
    left_s = left_s < 0.0 ? 0.0 : left_s < quota->depth_s ? left_s : quota->depth_s;
    if (quota->used > quota->cores && now_s + left_s / (quota->used - quota->cores) == now_s)
        left_s = 0.0; /* used up sooner than a float can tell, which late in a long run is more than rounding leaves */
    quota->left_s = left_s;
    quota->since_s = now_s;
    return quota->left_s > EMPTY_S;
}

/* Use so many cores from now on; returns when the bucket will be empty. */
static double use_quota(Quota *quota, double cores) {
    quota->used = cores;
    if (quota->left_s <= EMPTY_S || cores <= quota->cores)
        return INFINITY;
    return quota->since_s + quota->left_s / (cores - quota->cores);
}

static void renew(Resource *resource, double now_s) {
    double cores = resource->quota.cores;
    if (!resource->has_quota)
        return;
    resource->capacity = open_quota(&resource->quota, now_s) || resource->given <= cores ? resource->given : cores;
}

static double weight_of_users(const Resource *resource, int unsettled_only) {
    Sum sum = {0.0, 0.0};
    for (Use *use = resource->first; use; use = use->after)
        if (!unsettled_only || use->activity->fair == UNSETTLED)
            add_to(&sum, use->activity->weight);
    return total_of(&sum);
}

/* ---- progressive filling --------------------------------------------------------------------------------------- */

/* Sort pointers: a few by insertion, since qsort calls a function for every comparison. */
#define SORT(Type, all, count, is_first, compare)                                                                      \
    do {                                                                                                               \
        if ((count) > 24) {                                                                                            \
            qsort(all, count, sizeof(Type *), compare);                                                                \
            break;                                                                                                     \
        }                                                                                                              \
        for (Py_ssize_t i = 1; i < (count); i++) {                                                                     \
            Type *one = (all)[i];                                                                                      \
            Py_ssize_t at = i;                                                                                         \
            for (; at && is_first(one, (all)[at - 1]); at--)                                                           \
                (all)[at] = (all)[at - 1];                                                                             \
            (all)[at] = one;                                                                                           \
        }                                                                                                              \
    } while (0)

static inline int stops_first(const Activity *a, const Activity *b) {
    return a->stops_at < b->stops_at || (a->stops_at == b->stops_at && a->end.number < b->end.number);
}

static int by_stop(const void *one, const void *other) {
    const Activity *a = *(Activity *const *)one, *b = *(Activity *const *)other;
    return stops_first(a, b) ? -1 : stops_first(b, a);
}

/* Prepare all: resources that several share fill up; one user's alone is the same as a limit. */
static void begin_filling(Room *room) {
    room->num_filling = room->num_limited = room->next_limited = 0;
    for (Py_ssize_t i = 0; i < room->num_found; i++) {
        room->found[i]->fair = UNSETTLED;
        room->found[i]->most = room->found[i]->limit;
    }
    for (Py_ssize_t i = 0; i < room->num_full; i++) {
        Resource *resource = room->full[i];
        resource->touched = 0;
        if (resource->num_users > 1) {
            resource->left = resource->capacity;
            resource->weight = weight_of_users(resource, 0);
            room->filling[room->num_filling++] = resource;
        } else if (resource->first && resource->capacity < resource->first->activity->most) {
            resource->first->activity->most = resource->capacity;
        }
    }
    for (Py_ssize_t i = 0; i < room->num_found; i++) {
        Activity *one = room->found[i];
        one->stops_at = one->weight == 1.0 ? one->most : one->most / one->weight;
        if (one->most < INFINITY)
            room->limited[room->num_limited++] = one;
    }
    SORT(Activity, room->limited, room->num_limited, stops_first, by_stop);
}

/* The level at which the next resources are full, and these. */
static double find_lowest(Room *room) {
    double level = INFINITY;
    room->num_lowest = 0;
    for (Py_ssize_t i = 0; i < room->num_filling; i++) {
        double own = room->filling[i]->left / room->filling[i]->weight;
        if (own < level) {
            level = own;
            room->num_lowest = 0;
        }
        if (own == level)
            room->lowest[room->num_lowest++] = room->filling[i];
    }
    return level;
}

static void settle_limited(Room *room, double level) {
    room->num_settled = 0;
    while (room->next_limited < room->num_limited && room->limited[room->next_limited]->stops_at <= level) {
        Activity *one = room->limited[room->next_limited++];
        if (one->fair == UNSETTLED) {
            one->fair = one->most;
            room->settled[room->num_settled++] = one;
        }
    }
}

static void settle_full(Room *room, double level) {
    for (Py_ssize_t i = 0; i < room->num_lowest; i++)
        for (Use *use = room->lowest[i]->first; use; use = use->after) {
            Activity *one = use->activity;
            if (one->fair == UNSETTLED) {
                double fair = level * one->weight;
                one->fair = fair < one->most ? fair : one->most;
                room->settled[room->num_settled++] = one;
            }
        }
}

/* Take from resources what the settled ones get; those that others wait for go on filling. */
static void fill_rest(Room *room) {
    Py_ssize_t kept = 0;
    for (Py_ssize_t i = 0; i < room->num_settled; i++)
        for (Py_ssize_t j = 0; j < room->settled[i]->num_uses; j++) {
            Resource *resource = room->settled[i]->uses[j].resource;
            if (is_bound(resource)) {
                resource->left -= room->settled[i]->fair;
                resource->touched = 1;
            }
        }
    for (Py_ssize_t i = 0; i < room->num_filling; i++) {
        Resource *resource = room->filling[i];
        if (resource->touched) {
            resource->touched = 0;
            resource->left = resource->left > 0.0 ? resource->left : 0.0;
            resource->weight = weight_of_users(resource, 1); /* again, since differences of sums would round */
        }
        if (resource->weight)
            room->filling[kept++] = resource;
    }
    room->num_filling = kept;
}

/* Sets `fair` of every activity that was found to its rate. */
static void find_fair_rates(Room *room) {
    Py_ssize_t waiting = room->num_found;
    if (waiting == 1) { /* most computations have their cores to themselves */
        Activity *one = room->found[0];
        one->fair = one->limit;
        for (Py_ssize_t i = 0; i < room->num_full; i++)
            if (room->full[i]->capacity < one->fair)
                one->fair = room->full[i]->capacity;
        return;
    }
    begin_filling(room);
    while (room->num_filling) {
        double level = find_lowest(room);
        settle_limited(room, level);
        if (!room->num_settled)
            settle_full(room, level);
        waiting -= room->num_settled;
        if (!waiting)
            break;
        fill_rest(room);
    }
    for (Py_ssize_t i = 0; i < room->num_found; i++)
        if (room->found[i]->fair == UNSETTLED)
            room->found[i]->fair = room->found[i]->most;
}
