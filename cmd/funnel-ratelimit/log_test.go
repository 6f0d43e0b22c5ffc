package main

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"testing"

	"github.com/envoyproxy/ratelimit/src/settings"
	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"
)

// What package limiter logs has its own level: that Redis is available again is no warning.
func TestLevels(t *testing.T) {
	before := slog.Default()
	level := logrus.GetLevel()
	formatter := logrus.StandardLogger().Formatter
	var log bytes.Buffer
	logrus.SetOutput(&log)
	t.Cleanup(func() {
		slog.SetDefault(before)
		logrus.SetOutput(os.Stderr)
		logrus.SetLevel(level)
		logrus.SetFormatter(formatter)
	})
	for _, c := range []struct {
		level, format, log string
	}{
		{"WARN", "text", `^time="\S*" level=warning msg="redis unavailable" error=EOF node=a\n` +
			`time="\S*" level=error msg="wrong password"\n$`},
		{"info", "JSON", `^{"@message":"redis unavailable","@timestamp":"\S*","error":"EOF","level":"warning","node":"a"}\n` +
			`{"@message":"redis available","@timestamp":"\S*","after":1,"level":"info"}\n` +
			`{"@message":"wrong password","@timestamp":"\S*","level":"error"}\n$`},
	} {
		log.Reset()
		require.NoError(t, logAsSet(settings.Settings{LogLevel: c.level, LogFormat: c.format}))
		slog.With("node", "a").Warn("redis unavailable", "error", errors.New("EOF"))
		slog.Info("redis available", "after", 1)
		slog.Debug("details")
		slog.Default().WithGroup("call").Error("wrong password")
		require.Regexp(t, c.log, log.String(), "%s %s", c.level, c.format)
	}
	require.ErrorContains(t, logAsSet(settings.Settings{LogLevel: "loud"}), "LOG_LEVEL")
}
