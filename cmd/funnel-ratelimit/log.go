package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/envoyproxy/ratelimit/src/settings"
	"github.com/redis/go-redis/v9"
	"github.com/sirupsen/logrus"
)

// logAsSet makes everything that is logged follow LOG_LEVEL and LOG_FORMAT.
func logAsSet(s settings.Settings) error {
	level, err := logrus.ParseLevel(s.LogLevel)
	if err != nil {
		return fmt.Errorf("LOG_LEVEL: %w", err)
	}
	logrus.SetLevel(level)
	if strings.EqualFold(s.LogFormat, "json") {
		logrus.SetFormatter(&logrus.JSONFormatter{FieldMap: logrus.FieldMap{"time": "@timestamp", "msg": "@message"}})
	}
	slog.SetDefault(slog.New(logHandler{logrus.NewEntry(logrus.StandardLogger())}))
	redis.SetLogger(redisLogger{})
	return nil
}

// A redisLogger logs what go-redis says.
type redisLogger struct{}

func (redisLogger) Printf(_ context.Context, format string, words ...any) {
	logrus.Warnf(format, words...)
}

// A logHandler passes on to logrus, at the same level, what packages such as limiter log by slog.
type logHandler struct{ entry *logrus.Entry }

// levelOf returns the level of logrus.
func levelOf(level slog.Level) logrus.Level {
	switch {
	case level >= slog.LevelError:
		return logrus.ErrorLevel
	case level >= slog.LevelWarn:
		return logrus.WarnLevel
	case level >= slog.LevelInfo:
		return logrus.InfoLevel
	}
	return logrus.DebugLevel
}

func (h logHandler) Enabled(_ context.Context, level slog.Level) bool {
	return h.entry.Logger.IsLevelEnabled(levelOf(level))
}

func (h logHandler) Handle(_ context.Context, record slog.Record) error {
	entry := h.entry
	record.Attrs(func(attribute slog.Attr) bool {
		entry = entry.WithField(attribute.Key, attribute.Value.Resolve().Any())
		return true
	})
	entry.Log(levelOf(record.Level), record.Message)
	return nil
}

func (h logHandler) WithAttrs(attributes []slog.Attr) slog.Handler {
	for _, attribute := range attributes {
		h.entry = h.entry.WithField(attribute.Key, attribute.Value.Resolve().Any())
	}
	return h
}

// WithGroup returns the same handler: groups are left out, since logrus has none.
func (h logHandler) WithGroup(string) slog.Handler { return h }
