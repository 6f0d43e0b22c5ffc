package backend

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	reference "github.com/envoyproxy/ratelimit/src/limiter"
	"github.com/envoyproxy/ratelimit/src/settings"
	"github.com/envoyproxy/ratelimit/src/utils"
	"github.com/kelseyhightower/envconfig"
	"github.com/sirupsen/logrus"

	"funnel/limiter"
	"funnel/limiter/lease"
)

// options are the settings that the reference lacks.
type options struct {
	Lease       time.Duration         `envconfig:"FUNNEL_LEASE"`
	OnFailure   limiter.FailurePolicy `envconfig:"FUNNEL_ON_FAILURE" default:"error"`
	BurstRatio  float64               `envconfig:"FUNNEL_BURST_RATIO" default:"1"` // capacity by requests_per_unit
	Charge      bool                  `envconfig:"FUNNEL_CHARGE"`
	Quotas      string                `envconfig:"FUNNEL_QUOTAS"` // a zone, or empty for funnels
	DialTimeout time.Duration         `envconfig:"FUNNEL_DIAL_TIMEOUT" default:"5s"`
	SoftBreach  float64               `envconfig:"SOFT_BREACH_HEADER_RATIO"` // of the capacity; 0 for no header
}

// ignored are prefixes of the reference's settings that this service does not read.
var ignored = []string{"EXPIRATION_JITTER_MAX_SECONDS", "LOCAL_CACHE_SIZE_IN_BYTES", "MEMCACHE_", "REDIS_PERSECOND",
	"REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", "REDIS_PIPELINE_", "REDIS_POOL_",
	"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", "TRACING_"}

// warn logs which settings are ignored.
func warn(environment []string) {
	for _, setting := range environment {
		name, value, _ := strings.Cut(setting, "=")
		isIgnored := slices.ContainsFunc(ignored, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
		if isIgnored && value != "" && value != "0" && value != "false" {
			logrus.Warnf("%s is ignored: see docs/envoy.md", name)
		}
	}
}

// longestTimeout is the longest REDIS_TIMEOUT at which a policy can decide in time: Envoy waits for
// 20 ms by default, and hardly anybody lets it wait longer than this.
const longestTimeout = time.Second

// read reads the options from the environment, and checks them and the reference's settings.
func (o *options) read(s settings.Settings) error {
	err := envconfig.Process("", o)
	if err != nil {
		return err
	}
	if !(o.BurstRatio > 0 && o.BurstRatio <= 1) { // nor NaN
		return fmt.Errorf("FUNNEL_BURST_RATIO is %v: it must be above 0, and at most 1", o.BurstRatio)
	}
	for _, setting := range []struct {
		name  string
		value float64
	}{
		{"FUNNEL_LEASE", o.Lease.Seconds()},
		{"REDIS_TIMEOUT", s.RedisTimeout.Seconds()},
		{"SOFT_BREACH_HEADER_RATIO", o.SoftBreach},
	} {
		if !(setting.value >= 0) { // nor NaN
			return fmt.Errorf("%s is %v: it must be at least 0", setting.name, setting.value)
		}
	}
	if o.DialTimeout <= 0 {
		return fmt.Errorf("FUNNEL_DIAL_TIMEOUT is %v: it must be above 0, such as 5s", o.DialTimeout)
	}
	if s.BackendType != "redis" && s.BackendType != "" {
		return fmt.Errorf("BACKEND_TYPE is '%s': it must be redis", s.BackendType)
	}
	warn(os.Environ())
	if o.OnFailure != limiter.FailWithError && (s.RedisTimeout > longestTimeout || s.RedisTimeout == 0) {
		logrus.Warnf("FUNNEL_ON_FAILURE is %v, but if Redis hangs, Envoy gives up before it decides: REDIS_TIMEOUT is %v, "+
			"and should be below the timeout of Envoy's rate limit filter, which is 20ms by default",
			o.OnFailure, s.RedisTimeout)
	}
	return nil
}

// Events are called by a [Backend] to count what statuses do not tell.
type Events struct {
	// Failed is called for each descriptor that Redis does not decide, unless the request gets the
	// error.
	Failed func()

	// NotAsked is called for each descriptor about which Redis is not even asked, because it has not
	// answered before. Failed, or the error of the request, counts the descriptor as well.
	NotAsked func()
}

// New returns a Backend by the reference's settings, and by options from the environment. It sends
// nothing yet.
func New(s settings.Settings, events Events) (*Backend, error) {
	b := &Backend{settings: s, events: events}
	b.counts = reference.NewBaseRateLimit(utils.NewTimeSourceImpl(), nil, 0, nil, s.NearLimitRatio, "", nil)
	err := b.options.read(s)
	if err != nil {
		return nil, err
	}
	b.quotas, err = newQuotas(b.options.Quotas, time.Now)
	if err != nil {
		return nil, err
	}
	b.client, err = newClient(s, b.options.DialTimeout)
	if err != nil {
		return nil, err
	}
	b.limiter = limiter.New(b.client.Pipeline, limiter.WithPrefix(s.CacheKeyPrefix), limiter.WithTimeout(s.RedisTimeout),
		limiter.OnFailure(b.options.OnFailure), limiter.WithHook(func(_ context.Context, event limiter.Event) {
			if !decides(event.Command) {
				return
			}
			if event.Cause != nil && event.Err == nil {
				events.Failed()
			}
			if errors.Is(event.Cause, limiter.ErrNotAsked) {
				events.NotAsked()
			}
		}))
	b.single = b.limiter
	if b.options.Lease > 0 {
		b.single = lease.New(b.limiter, b.options.Lease)
	}
	return b, nil
}

// decides reports whether a command of the Limiter decides descriptors. Leases take tokens ahead,
// and if that fails, each caller asks alone. Refunds give back what was decided before.
func decides(command string) bool { return command != "take" && command != "refund" }

// Close waits until what is under way without a caller has been answered, such as give-backs, or
// ctx is done. Then it closes all connections to Redis.
func (b *Backend) Close(ctx context.Context) {
	_, _ = b.limiter.Drain(ctx)
	b.client.Close()
}
