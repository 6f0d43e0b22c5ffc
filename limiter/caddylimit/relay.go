package caddylimit

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// A relay is a log handler that passes lines on to the handler of the configuration that runs: a
// Limiter stays through reloads, and each configuration has its own logs.
type relay struct {
	to   *atomic.Pointer[slog.Handler]
	with func(slog.Handler) slog.Handler // adds the attributes and groups of a logger
}

func newRelay() *relay {
	r := &relay{to: new(atomic.Pointer[slog.Handler]), with: func(h slog.Handler) slog.Handler { return h }}
	r.set(slog.DiscardHandler)
	return r
}

func (r *relay) set(handler slog.Handler) { r.to.Store(&handler) }

func (r *relay) current() slog.Handler { return r.with(*r.to.Load()) }

func (r *relay) Enabled(ctx context.Context, level slog.Level) bool {
	return r.current().Enabled(ctx, level)
}

func (r *relay) Handle(ctx context.Context, record slog.Record) error {
	return r.current().Handle(ctx, record)
}

func (r *relay) WithAttrs(attributes []slog.Attr) slog.Handler {
	return &relay{to: r.to, with: func(h slog.Handler) slog.Handler { return r.with(h).WithAttrs(attributes) }}
}

func (r *relay) WithGroup(name string) slog.Handler {
	return &relay{to: r.to, with: func(h slog.Handler) slog.Handler { return r.with(h).WithGroup(name) }}
}
