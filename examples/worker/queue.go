package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// A queue keeps its jobs in lists of Redis. One list has the jobs that wait, and each process has a
// list of the jobs that it has begun. A job is always in one of the lists, so none is lost in a
// crash. But the mails that a process sent just before the crash may be sent twice.
type queue struct {
	rdb            *redis.Client
	waiting, begun string // keys of lists
}

// fill puts new jobs into the queue, and puts back the jobs that this process had begun before it
// crashed.
func (q *queue) fill(ctx context.Context, count int) error {
	for {
		err := q.rdb.LMove(ctx, q.begun, q.waiting, "RIGHT", "LEFT").Err()
		if errors.Is(err, redis.Nil) {
			break
		}
		if err != nil {
			return err
		}
	}
	for i := range count {
		err := q.rdb.RPush(ctx, q.waiting, text(job{ID: fmt.Sprint(i + 1), Mails: 1 + 5*i%13})).Err()
		if err != nil {
			return err
		}
	}
	return nil
}

// take moves a job from the waiting jobs to the jobs of this process. It asks again each second,
// because go-redis does not interrupt a command that blocks.
func (q *queue) take(ctx context.Context) (j job, err error) {
	for {
		moved, err := q.rdb.BLMove(ctx, q.waiting, q.begun, "LEFT", "RIGHT", time.Second).Result()
		switch {
		case err == nil:
			return j, json.Unmarshal([]byte(moved), &j)
		case !errors.Is(err, redis.Nil):
			return job{}, err
		case ctx.Err() != nil:
			return job{}, context.Cause(ctx)
		}
	}
}

func (q *queue) finish(ctx context.Context, j job) error {
	return q.rdb.LRem(ctx, q.begun, 1, text(j)).Err()
}

func (q *queue) putBack(ctx context.Context, taken, remains job) error {
	_, err := q.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.LRem(ctx, q.begun, 1, text(taken))
		p.LPush(ctx, q.waiting, text(remains))
		return nil
	})
	return err
}

// text returns a job as it is stored.
func text(j job) string {
	content, err := json.Marshal(j)
	if err != nil {
		panic(err) // a string and a number
	}
	return string(content)
}
