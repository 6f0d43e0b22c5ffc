package service

import (
	"errors"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"
	"github.com/stretchr/testify/require"
)

// An outage of three minutes, with ten requests a second, is one line a minute. The first comes at
// once.
func TestFailureLog(t *testing.T) {
	lines := test.NewGlobal()
	t.Cleanup(func() { logrus.StandardLogger().ReplaceHooks(logrus.LevelHooks{}) })
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := start
	f := failureLog{now: func() time.Time { return now }}
	var times []time.Duration
	var counts []any
	for i := range 1801 {
		now = start.Add(time.Duration(i) * 100 * time.Millisecond)
		before := len(lines.AllEntries())
		f.note(errors.New("Redis is not asked"))
		if len(lines.AllEntries()) > before {
			times, counts = append(times, now.Sub(start)), append(counts, lines.LastEntry().Data["requests"])
		}
	}
	require.Equal(t, []time.Duration{0, time.Minute, 2 * time.Minute, 3 * time.Minute}, times, "when lines are written")
	require.Equal(t, []any{1, 600, 600, 600}, counts, "requests since the line before")
	require.Equal(t, logrus.ErrorLevel, lines.LastEntry().Level)
	require.Contains(t, lines.LastEntry().Message, "Redis is not asked")
}
