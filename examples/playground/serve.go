package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os/signal"
	"syscall"
	"time"
)

// serve serves until a signal ends the program, and then waits for the requests that are under way.
// It closes a connection if its client takes longer than timeout to send a request, or the next
// request.
func serve(address string, timeout time.Duration, handler http.Handler, logger *slog.Logger) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:     handler,
		ReadTimeout: timeout,
		IdleTimeout: timeout,
		ErrorLog:    slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	logger.Info("serving", "address", "http://"+listener.Addr().String())

	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	logger.Info("shutting down")
	patience, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err = server.Shutdown(patience)
	if err != nil {
		return errors.Join(errors.New("requests were cut off"), err)
	}
	return nil
}
