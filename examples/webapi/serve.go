package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// A site is a handler, and the address that it is served on.
type site struct {
	name, address string
	handler       http.Handler
}

var errShutdown = errors.New("the service shuts down")

// serve serves sites until ctx is done. Then it accepts no more requests, and waits until all are
// answered. Requests that take longer than patience are cut off: their contexts end, so they can
// still settle and give their slots back.
func serve(ctx context.Context, patience time.Duration, sites ...site) error {
	requests, cutOff := context.WithCancelCause(context.Background())
	defer cutOff(errShutdown)
	failed := make(chan error, len(sites))
	var servers []*http.Server
	for _, s := range sites {
		listener, err := net.Listen("tcp", s.address)
		if err != nil {
			return err
		}
		server := &http.Server{
			Handler:     s.handler,
			BaseContext: func(net.Listener) context.Context { return requests },
			ReadTimeout: 10 * time.Second, // of a request, with its body
			IdleTimeout: time.Minute,
		}
		go func() { failed <- server.Serve(listener) }()
		slog.Info("serving", "site", s.name, "address", "http://"+listener.Addr().String())
		servers = append(servers, server)
	}

	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	slog.Info("shutting down")
	err := shutdown(servers, patience)
	if errors.Is(err, context.DeadlineExceeded) {
		slog.Warn("requests are cut off", "patience", patience)
		cutOff(errShutdown)
		err = shutdown(servers, 10*time.Second)
	}
	return err
}

// shutdown waits until all requests are answered, but not for longer than patience.
func shutdown(servers []*http.Server, patience time.Duration) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, server := range servers {
		err = errors.Join(err, server.Shutdown(ctx))
	}
	return err
}
