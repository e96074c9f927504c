/* Owners and helpers of parallel regions, for thread_sanitizer.py: it writes walker.c, which is the walker in C. */
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef int64_t word;

static word clock_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}
static word sched_yield_now(void) { return sched_yield(); }
static word usleep_now(word microseconds) { return usleep(microseconds); }
static word memcpy_now(word to, word from, word bytes) { return (word)memcpy((void *)to, (void *)from, bytes); }
static word pthread_self_now(void) { return (word)pthread_self(); }

#include "walker.c"

/* Eight tasks: the first four wait for nothing, the next three for two of those each, the last for these three. */
enum { TASKS = 8, EDGES = 9, LANES = 3, FRAME = FRAME_HEADER + 1, MOST_PLACES = 8 };
static const int edges[EDGES][2] = {{0, 4}, {1, 4}, {1, 5}, {2, 5}, {2, 6}, {3, 6}, {4, 7}, {5, 7}, {6, 7}};

struct region {
  word results[TASKS], lanes[LANES], blocks[TASKS][2], rows[2 * TASKS * 4], tasks[TASKS * 4], successors[EDGES];
  word template[STATE_WORDS + TASK_WORDS * TASKS], state[STATE_WORDS + TASK_WORDS * TASKS];
  word words[FRAME], frames[LANES * FRAME], team[TEAM_WORDS + LANES];
};

static word looked[PLACES_AT + PLACE_WORDS * MOST_PLACES];
static word is_over, tasks_of_helpers;
static _Thread_local int is_helper;
static _Thread_local unsigned random_state = 1;
static long regions;

static void wrong(const char *what, long region) {
  printf("region %ld: %s\n", region, what);
  exit(1);
}

/* Yield to other threads in a random fraction of the calls. */
static void pause_sometimes(void) {
  random_state = random_state * 1664525u + 1013904223u;
  if (random_state >> 27 == 0) sched_yield();
}

/* The rows of a task: the first one writes the lane's memory, the second one reads it. */
static word first_row(word block, word frame) {
  word *task = (word *)block;
  *(word *)((word *)frame)[FRAME_HEADER] = task[0];
  pause_sometimes();
  return 0;
}

static word second_row(word block, word frame) {
  word *task = (word *)block, *results = (word *)task[1], sum = task[0] + 1;
  if (*(word *)((word *)frame)[FRAME_HEADER] != task[0]) wrong("another task wrote into a lane", -1);
  for (int k = 0; k < EDGES; k++)
    if (edges[k][1] == task[0]) {
      if (!results[edges[k][0]]) wrong("a task is done too early", -1);
      sum += results[edges[k][0]];
    }
  if (results[task[0]]) wrong("a task is done twice", -1);
  results[task[0]] = sum;
  if (is_helper) __atomic_fetch_add(&tasks_of_helpers, 1, __ATOMIC_RELAXED);
  return 0;
}

static struct region *make_region(void) {
  struct region *r = calloc(1, sizeof *r);
  word *t = r->template;
  int count = 0;
  t[0] = t[3] = TASKS, t[4] = (word)r->tasks, t[5] = (word)r->successors;
  for (int task = 0; task < TASKS; task++) {
    r->blocks[task][0] = task, r->blocks[task][1] = (word)r->results;
    for (int row = 0; row < 2; row++) {
      word *words = r->rows + 4 * (2 * task + row);
      words[0] = (word)(row ? second_row : first_row), words[1] = (word)r->blocks[task], words[2] = 1;
    }
    r->tasks[4 * task] = 2 * task, r->tasks[4 * task + 1] = 2 * task + 2, r->tasks[4 * task + 2] = count;
    for (int k = 0; k < EDGES; k++) {
      if (edges[k][0] == task) r->successors[count++] = edges[k][1];
      if (edges[k][1] == task) t[STATE_WORDS + TASK_WORDS * task]++;
    }
    r->tasks[4 * task + 3] = count;
  }
  r->words[ROWS] = (word)r->rows, r->words[ROW_COUNT] = 2 * TASKS;
  word team[] = {0, (word)t, (word)r->state, STATE_WORDS + TASK_WORDS * TASKS, FRAME, FRAME_HEADER,
                (word)r->lanes, 8, LANES - 1, (word)r->frames, 0};
  memcpy(r->team, team, sizeof team);
  return r;
}

/* As RegionRun.execute, without waking threads. */
static word execute(struct region *r, word until) {
  word outcome;
  do outcome = f_team((word)r->words, (word)r->team, (word)looked, until);
  while (outcome == CALL);
  return outcome;
}

/* As RegionRun.cancel. */
static void cancel(struct region *r) {
  for (int lane = 0; lane < LANES; lane++)
    __atomic_store_n(r->frames + lane * FRAME + CANCEL, 1, __ATOMIC_RELAXED);
}

static void *owner_thread(void *ignored) {
  static const word expected[TASKS] = {1, 2, 3, 4, 8, 11, 14, 41};
  struct region *r = make_region();
  for (long number = 0; number < regions; number++) {
    word in_slices = number % 2, outcome = PAUSED, stopped = 0;
    if (in_slices)
      while (outcome == PAUSED && !stopped) {
        outcome = execute(r, 0);
        if (outcome == PAUSED && number % 4 == 1) cancel(r);
        stopped = __atomic_load_n(r->state + STOPPED, __ATOMIC_RELAXED);
      }
    if (outcome == PAUSED) outcome = execute(r, ENDLESS);
    for (int task = 0; task < TASKS; task++)
      if (r->results[task] != expected[task] && (outcome == DONE || r->results[task])) wrong("a result", number);
    /* The run is over: its memory is reused. */
    memset(r->results, 0, sizeof r->results);
    memset(r->lanes, 255, sizeof r->lanes);
    memset(r->state, 255, sizeof r->state);
    memset(r->frames, 255, sizeof r->frames);
    r->team[0] = 0;
  }
  free(r);
  return 0;
}

static void *helper_thread(void *ignored) {
  is_helper = 1;
  while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) f_serve((word)looked, SPIN_TIMEOUT_NS);
  return 0;
}

int main(int count, char **arguments) {
  regions = atol(arguments[1]);
  int owners = atoi(arguments[2]), helpers = atoi(arguments[3]);
  pthread_t threads[owners + helpers];
  looked[PLACES] = helpers < MOST_PLACES ? helpers : MOST_PLACES;
  for (int k = 0; k < owners + helpers; k++) pthread_create(threads + k, 0, k < owners ? owner_thread : helper_thread, 0);
  for (int k = 0; k < owners + helpers; k++) {
    if (k == owners) __atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
    pthread_join(threads[k], 0);
  }
  for (int k = 0; k < looked[PLACES]; k++)
    if (looked[PLACES_AT + k]) wrong("a place is left behind", regions);
  printf("%ld tasks by helpers\n", (long)tasks_of_helpers);
  return 0;
}
