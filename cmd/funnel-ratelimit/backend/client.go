package backend

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/envoyproxy/ratelimit/src/settings"
	"github.com/envoyproxy/ratelimit/src/utils"
	"github.com/redis/go-redis/v9"

	"funnel/internal/certs"
	"funnel/internal/redisclient"
)

// newClient returns a client by the reference's settings. It sends nothing yet.
func newClient(s settings.Settings, dialTimeout time.Duration) (*redisclient.Client, error) {
	targets, err := readTargets(s)
	if err != nil {
		return nil, err
	}
	connect := redisclient.Settings{Targets: targets.options, Timeout: s.RedisTimeout, DialTimeout: dialTimeout}
	if s.RedisTls || targets.hasTLS {
		files, err := certs.New(func() *tls.Config {
			return utils.TlsConfigFromFiles(s.RedisTlsClientCert, s.RedisTlsClientKey, s.RedisTlsCACert, utils.ServerCA,
				s.RedisTlsSkipHostnameVerification)
		}, s.RedisTlsClientCert, s.RedisTlsClientKey, s.RedisTlsCACert)
		if err != nil {
			return nil, err
		}
		connect.TLS = files.Config
	}
	return redisclient.New(connect)
}

// targets are the addresses and the users of REDIS_URL, REDIS_TYPE and REDIS_AUTH.
type targets struct {
	options *redis.UniversalOptions
	hasTLS  bool // some address is rediss://
}

// readTargets reads the addresses of REDIS_URL, and the users.
func readTargets(s settings.Settings) (t targets, err error) {
	options, addresses := &redis.UniversalOptions{}, strings.Split(s.RedisUrl, ",")
	t.options = options
	options.Username, options.Password = credentials(s.RedisAuth)
	switch kind := strings.ToLower(s.RedisType); {
	case kind == "single" && len(addresses) == 1:
	case kind == "cluster":
		options.IsClusterMode = true
	case kind == "sentinel" && len(addresses) > 1:
		options.MasterName, addresses = addresses[0], addresses[1:]
		if options.MasterName == "" || strings.ContainsFunc(options.MasterName, unicode.IsSpace) {
			return t, errors.New("REDIS_URL: with REDIS_TYPE=sentinel it must begin with the name of the primary, " +
				"without spaces, as in mymaster,a:26379,b:26379")
		}
		options.SentinelUsername, options.SentinelPassword = credentials(s.RedisSentinelAuth)
	default:
		return t, fmt.Errorf("REDIS_TYPE is '%s', and REDIS_URL has %d parts: it must be single with one address, "+
			"cluster, or sentinel with the name of the primary before the addresses", s.RedisType, len(addresses))
	}
	t.hasTLS, err = redisclient.SetAddresses(options, addresses...)
	if err != nil {
		return t, fmt.Errorf("REDIS_URL: %w", err)
	}
	return t, nil
}

// credentials splits user:password. Without a colon it is the password.
func credentials(auth string) (user, password string) {
	colon := strings.Index(auth, ":")
	return auth[:max(0, colon)], auth[colon+1:]
}
