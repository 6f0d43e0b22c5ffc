package backend

import (
	"strings"
	"testing"

	"github.com/envoyproxy/ratelimit/src/settings"
	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"
	"github.com/stretchr/testify/require"
)

// Wrong settings are errors. Settings that have no effect, and a policy that cannot decide in time,
// are warnings.
func TestSettings(t *testing.T) {
	log := test.NewGlobal()
	t.Cleanup(func() { logrus.StandardLogger().ReplaceHooks(logrus.LevelHooks{}) })
	for _, c := range []struct{ environment, err, warning string }{
		{"", "", ""},
		{"FUNNEL_BURST_RATIO=1", "", ""},
		{"FUNNEL_BURST_RATIO=0.001", "", ""},
		{"FUNNEL_BURST_RATIO=0", "FUNNEL_BURST_RATIO is 0: it must be above 0, and at most 1", ""},
		{"FUNNEL_BURST_RATIO=1.1", "FUNNEL_BURST_RATIO is 1.1: it must", ""},
		{"FUNNEL_BURST_RATIO=NaN", "FUNNEL_BURST_RATIO is NaN: it must", ""},
		{"FUNNEL_LEASE=-1ms", "FUNNEL_LEASE is -0.001: it must be at least 0", ""},
		{"FUNNEL_LEASE=50", "FUNNEL_LEASE", ""},
		{"FUNNEL_ON_FAILURE=panic", "FUNNEL_ON_FAILURE", ""},
		{"REDIS_TIMEOUT=-1s", "REDIS_TIMEOUT is -1: it must be at least 0", ""},
		{"SOFT_BREACH_HEADER_RATIO=NaN", "SOFT_BREACH_HEADER_RATIO is NaN: it must be at least 0", ""},
		{"FUNNEL_DIAL_TIMEOUT=0s", "FUNNEL_DIAL_TIMEOUT is 0s: it must be above 0, such as 5s", ""},
		{"FUNNEL_DIAL_TIMEOUT=1ns", "", ""},
		{"BACKEND_TYPE=memcache", "BACKEND_TYPE is 'memcache': it must be redis", ""},
		{"FUNNEL_ON_FAILURE=local REDIS_TIMEOUT=1s", "", ""},
		{"FUNNEL_ON_FAILURE=local REDIS_TIMEOUT=1.001s", "",
			"FUNNEL_ON_FAILURE is local, but if Redis hangs, Envoy gives up"},
		{"FUNNEL_ON_FAILURE=closed REDIS_TIMEOUT=0s", "", "FUNNEL_ON_FAILURE is closed, but if Redis hangs, Envoy gives up"},
		{"FUNNEL_ON_FAILURE=error REDIS_TIMEOUT=0s", "", ""},
		{"REDIS_POOL_SIZE=20", "", "REDIS_POOL_SIZE is ignored: see docs/envoy.md"},
		{"REDIS_PERSECOND_URL=a:1", "", "REDIS_PERSECOND_URL is ignored"},
		{"REDIS_PERSECOND=false TRACING_ENABLED=false LOCAL_CACHE_SIZE_IN_BYTES=0", "", ""},
	} {
		t.Run(c.environment, func(t *testing.T) {
			log.Reset()
			for _, setting := range strings.Fields(c.environment) {
				name, value, _ := strings.Cut(setting, "=")
				t.Setenv(name, value)
			}
			var o options
			err := o.read(settings.NewSettings())
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			if c.warning == "" {
				require.Empty(t, log.AllEntries())
				return
			}
			require.Len(t, log.AllEntries(), 1)
			require.Contains(t, log.LastEntry().Message, c.warning)
		})
	}
}
