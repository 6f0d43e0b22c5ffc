package backend

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	reference "github.com/envoyproxy/ratelimit/src/limiter"
	"github.com/envoyproxy/ratelimit/src/settings"
	"github.com/envoyproxy/ratelimit/src/utils"
	"github.com/kelseyhightower/envconfig"
	"github.com/redis/go-redis/v9"
	"github.com/sirupsen/logrus"

	"funnel/limiter"
	"funnel/limiter/lease"
)

// options are the settings that the reference lacks.
type options struct {
	Lease      time.Duration         `envconfig:"FUNNEL_LEASE"`
	OnFailure  limiter.FailurePolicy `envconfig:"FUNNEL_ON_FAILURE" default:"error"`
	BurstRatio float64               `envconfig:"FUNNEL_BURST_RATIO" default:"1"` // capacity by requests_per_unit
	Charge     bool                  `envconfig:"FUNNEL_CHARGE"`
	SoftBreach float64               `envconfig:"SOFT_BREACH_HEADER_RATIO"` // of the capacity; 0 for no header
}

// ignored are the beginnings of the names of the reference's settings that are not read here.
var ignored = []string{"EXPIRATION_JITTER_MAX_SECONDS", "LOCAL_CACHE_SIZE_IN_BYTES", "MEMCACHE_", "REDIS_PERSECOND",
	"REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", "REDIS_PIPELINE_", "REDIS_POOL_ON_EMPTY_BEHAVIOR",
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

// New returns a Backend by the reference's settings, and by options from the environment. It sends nothing yet. The
// Backend calls failed for each descriptor that Redis does not decide, unless the request gets the error.
func New(s settings.Settings, failed func()) (*Backend, error) {
	b := &Backend{settings: s, failed: failed}
	b.counts = reference.NewBaseRateLimit(utils.NewTimeSourceImpl(), nil, 0, nil, s.NearLimitRatio, "", nil)
	if err := envconfig.Process("", &b.options); err != nil {
		return nil, err
	}
	if !(b.options.BurstRatio > 0 && b.options.BurstRatio <= 1) { // nor NaN
		return nil, fmt.Errorf("FUNNEL_BURST_RATIO is %v: it must be above 0, and at most 1", b.options.BurstRatio)
	}
	for name, value := range map[string]float64{"FUNNEL_LEASE": b.options.Lease.Seconds(), "REDIS_TIMEOUT": s.RedisTimeout.Seconds(),
		"REDIS_POOL_SIZE": float64(s.RedisPoolSize), "SOFT_BREACH_HEADER_RATIO": b.options.SoftBreach} {
		if !(value >= 0) { // nor NaN
			return nil, fmt.Errorf("%s is %v: it must be at least 0", name, value)
		}
	}
	if s.BackendType != "redis" && s.BackendType != "" {
		return nil, fmt.Errorf("BACKEND_TYPE is '%s': it must be redis", s.BackendType)
	}
	warn(os.Environ())
	client, err := newClient(s)
	if err != nil {
		return nil, err
	}
	b.limiter = limiter.New(client, limiter.WithPrefix(s.CacheKeyPrefix), limiter.WithTimeout(s.RedisTimeout),
		limiter.OnFailure(b.options.OnFailure), limiter.WithHook(func(_ context.Context, event limiter.Event) {
			if event.Cause != nil && event.Err == nil {
				failed()
			}
		}))
	b.single = b.limiter
	if b.options.Lease > 0 {
		b.single = lease.New(b.limiter, b.options.Lease)
	}
	return b, nil
}

// newClient returns a client for REDIS_URL, whose addresses are host:port, paths of sockets, or URLs.
func newClient(s settings.Settings) (redis.UniversalClient, error) {
	options := &redis.UniversalOptions{Addrs: strings.Split(s.RedisUrl, ","), PoolSize: s.RedisPoolSize,
		DialTimeout: s.RedisTimeout, ReadTimeout: s.RedisTimeout,
		ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1} // as package limiter says
	if s.RedisTls {
		options.TLSConfig = s.RedisTlsConfig
	}
	options.Username, options.Password = credentials(s.RedisAuth)
	user, password := &options.Username, &options.Password // of the addresses
	switch kind := strings.ToLower(s.RedisType); {
	case kind == "single" && len(options.Addrs) == 1:
	case kind == "cluster":
		options.IsClusterMode = true
	case kind == "sentinel" && len(options.Addrs) > 1:
		options.MasterName, options.Addrs = options.Addrs[0], options.Addrs[1:]
		user, password = &options.SentinelUsername, &options.SentinelPassword
		*user, *password = credentials(s.RedisSentinelAuth)
	default:
		return nil, fmt.Errorf("REDIS_TYPE is '%s', and REDIS_URL has %d parts: it must be single with one address, "+
			"cluster, or sentinel with the name of the primary before the addresses", s.RedisType, len(options.Addrs))
	}
	for i, address := range options.Addrs {
		if address == "" {
			return nil, fmt.Errorf("REDIS_URL: address %d is empty", i+1)
		}
		if parsed, err := redis.ParseURL(address); err == nil {
			options.Addrs[i], options.DB = parsed.Addr, parsed.DB
			*user, *password = cmp.Or(*user, parsed.Username), cmp.Or(*password, parsed.Password)
			options.TLSConfig = cmp.Or(options.TLSConfig, parsed.TLSConfig)
		} else if strings.Contains(address, "@") || strings.Contains(address, "://") { // it may hold a password
			return nil, fmt.Errorf("REDIS_URL: address %d is not like redis://user:password@host:6379, "+
				"with special characters escaped as in %%40", i+1)
		}
	}
	return redis.NewUniversalClient(options), nil
}

// credentials splits user:password. Without a user it is the password.
func credentials(auth string) (user, password string) {
	colon := strings.Index(auth, ":")
	return auth[:max(0, colon)], auth[colon+1:]
}
