// Package wait has the arithmetic of callers that wait for their turn.
package wait

import (
	"context"
	"time"
)

// Forever is the longest Duration, 292 years. It is the max wait of a caller that nothing bounds.
const Forever time.Duration = 1<<63 - 1

// ForSlot is how long a caller is told to wait if it lacks only a slot, because nobody knows when a
// slot comes free. Work whose number in flight is limited takes about a second. The time until the
// first slot ends is far too long, since slots are released before.
const ForSlot = time.Second

// Left returns the time until the deadline of ctx, at least 0, or Forever if it has none.
func Left(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return Forever
	}
	return max(time.Until(deadline), 0)
}

// Due returns when the tokens of a limited reservation would be due. The reservation would be
// allowed after retryAfter, and would then wait for maxWait. Both are at least 0, and the sum is at
// most Forever.
func Due(maxWait, retryAfter time.Duration) time.Duration {
	return maxWait + min(retryAfter, Forever-maxWait)
}

// Sleep returns nil after d, or the cause of ctx if that is done earlier. It returns nil at once if
// d is 0 or less.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
