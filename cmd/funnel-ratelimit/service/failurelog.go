package service

import (
	"sync"
	"time"

	"github.com/sirupsen/logrus"
)

// failureLogEvery is the least time between two lines about requests that Redis does not decide. An
// outage may be thousands of requests a second, and one line a minute says how many.
const failureLogEvery = time.Minute

// A failureLog logs that requests end in an error because Redis does not decide: the first at once,
// and then a line a minute as long as it lasts. It is for FUNNEL_ON_FAILURE=error; the other
// policies decide, and the Limiter logs that.
type failureLog struct {
	now func() time.Time

	mutex sync.Mutex
	last  time.Time // when a line was written
	count int       // of requests since then
}

// note notes a request that has ended in an error.
func (f *failureLog) note(err error) {
	f.mutex.Lock()
	f.count++
	now, requests := f.now(), f.count
	logs := now.Sub(f.last) >= failureLogEvery
	if logs {
		f.last, f.count = now, 0
	}
	f.mutex.Unlock() // before it logs: the log may block, and requests must not wait for it
	if logs {
		logrus.WithField("requests", requests).Errorf("Redis does not decide, and requests get an error: %v", err)
	}
}
