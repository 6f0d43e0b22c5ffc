package main

import (
	"context"
	"log"
	"time"

	"funnel/limiter"
)

// What the mail server accepts from all processes together, and the key of the funnel that they
// share.
var limit = limiter.PerSecond(4).WithCapacity(8)

const key = "example:mails:sent"

// A job is some mails to send.
type job struct {
	ID    string
	Mails int // that remain to be sent
}

// jobs is a queue. What is taken is either finished, or put back.
type jobs interface {
	// take waits for a job.
	take(ctx context.Context) (job, error)

	// finish removes a job for good.
	finish(ctx context.Context, j job) error

	// putBack puts a job back, with the mails that remain.
	putBack(ctx context.Context, taken, remains job) error
}

// A worker does one job after the other.
type worker struct {
	limiter *limiter.Limiter
	queue   jobs
	send    func(ctx context.Context, j job, mails int) error
}

// run does jobs until ctx is done. A job that fails goes back to the queue.
func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		j, err := w.queue.take(ctx)
		if err == nil {
			err = w.do(ctx, j)
		}
		if err != nil && ctx.Err() == nil {
			log.Print(err)
			pause(ctx, time.Second)
		}
	}
}

// do sends the mails of a job. A job may have more mails than the funnel holds, and WaitN returns
// ErrNeverFits for so many tokens. So it is sent in pieces, between which other workers have their
// turns.
func (w *worker) do(ctx context.Context, taken job) error {
	remains := taken
	for remains.Mails > 0 {
		piece := min(remains.Mails, limit.Capacity)
		err := w.limiter.WaitN(ctx, key, limit, piece)
		if err == nil {
			err = w.send(ctx, remains, piece)
		}
		if err != nil {
			// The context may be done, and the job has to go back all the same. Its tokens stay
			// taken: nobody who has reserved behind them could go ahead earlier.
			putBack := w.queue.putBack(context.WithoutCancel(ctx), taken, remains)
			if putBack != nil {
				log.Printf("job %s stays with this process: %v", taken.ID, putBack)
			}
			return err
		}
		remains.Mails -= piece
	}
	return w.queue.finish(context.WithoutCancel(ctx), taken)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
