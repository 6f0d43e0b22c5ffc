package backend

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/envoyproxy/ratelimit/src/settings"
	"github.com/envoyproxy/ratelimit/src/utils"
	"github.com/redis/go-redis/v9"

	"funnel/cmd/funnel-ratelimit/certs"
	"funnel/limiter"
)

// A client is connected to Redis. All requests share one connection to each node, on which a
// command does not wait for the answers to earlier ones. So a request that gives up closes no
// connection.
type client struct {
	pipeline limiter.Client // for a Limiter
	all      redis.UniversalClient
	cluster  *redis.ClusterClient // or nil
}

// A pipelinedCluster sends commands through a pipeline to each node. The methods of the cluster's
// client tell package limiter which node has a key, and let it ask again for the nodes when one
// does not answer.
type pipelinedCluster struct {
	*redis.ClusterClient
	pipeline *redis.AutoPipeliner
}

func (c pipelinedCluster) Process(ctx context.Context, command redis.Cmder) error {
	return c.pipeline.Process(ctx, command)
}

// shortestReadTimeout is how long a connection may be silent although an answer is due. It is
// longer than most REDIS_TIMEOUTs: a pause of Redis should fail the requests that wait for it, and
// not close a connection.
const shortestReadTimeout = time.Second

// newClient returns a client for the reference's settings. It sends nothing yet.
func newClient(s settings.Settings, dialTimeout time.Duration) (*client, error) {
	targets, err := readTargets(s)
	if err != nil {
		return nil, err
	}
	options := targets.options
	options.DialTimeout = dialTimeout
	options.ReadTimeout = s.RedisTimeout
	if s.RedisTimeout > 0 {
		options.ReadTimeout = max(s.RedisTimeout, shortestReadTimeout)
	}
	options.MaxRetries, options.DialerRetries = -1, 1 // as package limiter says
	options.AutoPipelineOptions = &redis.AutoPipelineOptions{FullDuplex: true}
	if s.RedisTls || targets.hasTLS {
		options.Dialer, err = dialerWithTLS(s, dialTimeout)
		if err != nil {
			return nil, err
		}
	}
	c := &client{all: redis.NewUniversalClient(options)}
	pipeline, err := c.all.AutoPipeline()
	if err != nil {
		return nil, err
	}
	cluster, isCluster := c.all.(*redis.ClusterClient)
	if isCluster {
		c.cluster, c.pipeline = cluster, pipelinedCluster{cluster, pipeline}
	} else {
		c.pipeline = pipeline
	}
	return c, nil
}

// dialerWithTLS returns a function that connects with the certificate and the CA as their files are
// then. The name in the server's certificate must be the name that is dialed.
func dialerWithTLS(s settings.Settings, timeout time.Duration) (
	func(ctx context.Context, network, address string) (net.Conn, error), error) {
	files, err := certs.New(func() *tls.Config {
		return utils.TlsConfigFromFiles(s.RedisTlsClientCert, s.RedisTlsClientKey, s.RedisTlsCACert, utils.ServerCA,
			s.RedisTlsSkipHostnameVerification)
	}, s.RedisTlsClientCert, s.RedisTlsClientKey, s.RedisTlsCACert)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: timeout, KeepAlive: 5 * time.Minute}, Config: files.Config()}
		return dialer.DialContext(ctx, network, address)
	}, nil
}

// targets are the addresses and the users of REDIS_URL, REDIS_TYPE and REDIS_AUTH.
type targets struct {
	options *redis.UniversalOptions
	hasTLS  bool // some address is rediss://
}

// readTargets reads the addresses of REDIS_URL, each of which is host:port, the path of a socket,
// or a URL.
func readTargets(s settings.Settings) (targets, error) {
	options := &redis.UniversalOptions{Addrs: strings.Split(s.RedisUrl, ",")}
	t := targets{options: options}
	options.Username, options.Password = credentials(s.RedisAuth)
	user, password := &options.Username, &options.Password // of the addresses
	kind := strings.ToLower(s.RedisType)
	switch {
	case kind == "single" && len(options.Addrs) == 1:
	case kind == "cluster":
		options.IsClusterMode = true
	case kind == "sentinel" && len(options.Addrs) > 1:
		options.MasterName, options.Addrs = options.Addrs[0], options.Addrs[1:]
		if options.MasterName == "" || strings.ContainsFunc(options.MasterName, unicode.IsSpace) {
			return t, errors.New("REDIS_URL: with REDIS_TYPE=sentinel it must begin with the name of the primary, " +
				"without spaces, as in mymaster,a:26379,b:26379")
		}
		user, password = &options.SentinelUsername, &options.SentinelPassword
		*user, *password = credentials(s.RedisSentinelAuth)
	default:
		return t, fmt.Errorf("REDIS_TYPE is '%s', and REDIS_URL has %d parts: it must be single with one address, "+
			"cluster, or sentinel with the name of the primary before the addresses", s.RedisType, len(options.Addrs))
	}
	for i, address := range options.Addrs {
		parsed, err := readAddress(address)
		if err != nil {
			return t, fmt.Errorf("REDIS_URL: address %d %w", i+1, err)
		}
		options.Addrs[i] = parsed.Addr
		options.DB = cmp.Or(options.DB, parsed.DB)
		*user, *password = cmp.Or(*user, parsed.Username), cmp.Or(*password, parsed.Password)
		t.hasTLS = t.hasTLS || parsed.TLSConfig != nil
	}
	return t, nil
}

// readAddress reads host:port, the path of a socket, or a URL. Its error leaves out whatever may
// hold a password.
func readAddress(address string) (*redis.Options, error) {
	if address == "" {
		return nil, errors.New("is empty: it must be host:port, the path of a socket, or a URL such as redis://host:6379")
	}
	isURL := strings.Contains(address, "@") || strings.Contains(address, "://")
	parsed := &redis.Options{Addr: address}
	if isURL {
		var err error
		parsed, err = redis.ParseURL(address)
		if err != nil {
			return nil, errors.New("is not like redis://user:password@host:6379, with special characters escaped as in %40")
		}
	}
	if strings.HasPrefix(parsed.Addr, "/") {
		return parsed, nil
	}
	host, port, err := net.SplitHostPort(parsed.Addr)
	number, notNumber := strconv.ParseUint(port, 10, 16)
	if err == nil && notNumber == nil && number > 0 && !strings.ContainsFunc(host, unicode.IsSpace) {
		return parsed, nil
	}
	shown := "is '" + address + "': it "
	if isURL {
		shown = ""
	}
	return nil, fmt.Errorf("%smust be host:port with a port from 1 to 65535, and without spaces, "+
		"as in localhost:6379", shown)
}

// credentials splits user:password. Without a colon it is the password.
func credentials(auth string) (user, password string) {
	colon := strings.Index(auth, ":")
	return auth[:max(0, colon)], auth[colon+1:]
}

// Close closes all connections.
func (c *client) Close() error { return c.all.Close() }
