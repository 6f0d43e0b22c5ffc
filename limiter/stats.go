package limiter

import "sync/atomic"

// Stats counts calls since the [Limiter] was made, by what decided them. Each request
// of [Limiter.AllowMany], and each attempt of [Limiter.AllowAtMost] and
// [Limiter.Wait], counts as one.
type Stats struct {
	Module    uint64 // PathModule
	Script    uint64 // PathScript
	Prefilter uint64 // PathPrefilter
	Local     uint64 // PathLocal
	Open      uint64 // PathOpen
	Closed    uint64 // PathClosed
	Errors    uint64 // calls without a decision, which returned an error
}

// Stats returns the present counts.
func (l *Limiter) Stats() Stats {
	return Stats{
		Module:    l.stats.module.Load(),
		Script:    l.stats.script.Load(),
		Prefilter: l.stats.prefilter.Load(),
		Local:     l.stats.local.Load(),
		Open:      l.stats.open.Load(),
		Closed:    l.stats.closed.Load(),
		Errors:    l.stats.errors.Load(),
	}
}

type stats struct {
	module, script, prefilter, local, open, closed, errors atomic.Uint64
}

func (s *stats) count(answer answer) {
	counter := &s.errors
	if answer.err == nil {
		switch answer.result.Path {
		case PathModule:
			counter = &s.module
		case PathScript:
			counter = &s.script
		case PathPrefilter:
			counter = &s.prefilter
		case PathLocal:
			counter = &s.local
		case PathOpen:
			counter = &s.open
		case PathClosed:
			counter = &s.closed
		}
	}
	counter.Add(1)
}
