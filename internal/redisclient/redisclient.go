// Package redisclient connects a server of requests to Redis: the settings of its operator become a
// client of go-redis, as package limiter wants it.
package redisclient

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/limiter"
)

// A Client is connected to Redis. All requests share one connection to each node, on which commands
// do not wait for the answers to those before them. So a request that gives up closes no
// connection.
type Client struct {
	// Pipeline is for a Limiter.
	Pipeline limiter.Client

	all     redis.UniversalClient
	cluster *redis.ClusterClient // or nil
}

// A pipelinedCluster sends commands by a pipeline to each node. By the methods of the client of a
// cluster package limiter asks which node has a key, and makes it ask anew when a node does not
// answer.
type pipelinedCluster struct {
	*redis.ClusterClient
	pipeline *redis.AutoPipeliner
}

func (c pipelinedCluster) Process(ctx context.Context, command redis.Cmder) error {
	return c.pipeline.Process(ctx, command)
}

// shortestReadTimeout is how long a connection may be silent although an answer is due. It is
// longer than most time-outs of requests, because a pause of Redis should cost the requests that
// wait for it, and no connection.
const shortestReadTimeout = time.Second

// Settings say how to connect.
type Settings struct {
	// Targets are the addresses and the users: see [SetAddresses]. Other fields may be set; those
	// that package limiter advises are overwritten.
	Targets *redis.UniversalOptions

	Timeout     time.Duration // of a request; 0 for none
	DialTimeout time.Duration

	// TLS returns the configuration of a new connection, or is nil for connections without TLS. The
	// name in the server's certificate must be the name that is dialed, unless TLS says another.
	TLS func() *tls.Config
}

// New returns a Client. It sends nothing yet.
func New(s Settings) (*Client, error) {
	options := *s.Targets
	options.DialTimeout = s.DialTimeout
	options.ReadTimeout = s.Timeout
	if s.Timeout > 0 {
		options.ReadTimeout = max(s.Timeout, shortestReadTimeout)
	}
	options.MaxRetries, options.DialerRetries = -1, 1 // as package limiter says
	options.AutoPipelineOptions = &redis.AutoPipelineOptions{FullDuplex: true}
	if s.TLS != nil {
		options.Dialer = dialerWithTLS(s.TLS, s.DialTimeout)
	}
	c := &Client{all: redis.NewUniversalClient(&options)}
	pipeline, err := c.all.AutoPipeline()
	if err != nil {
		return nil, err
	}
	cluster, isCluster := c.all.(*redis.ClusterClient)
	if isCluster {
		c.cluster, c.Pipeline = cluster, pipelinedCluster{cluster, pipeline}
	} else {
		c.Pipeline = pipeline
	}
	return c, nil
}

// A dialer connects to an address.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

func dialerWithTLS(config func() *tls.Config, timeout time.Duration) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		connects := tls.Dialer{NetDialer: &net.Dialer{Timeout: timeout, KeepAlive: 5 * time.Minute}, Config: config()}
		return connects.DialContext(ctx, network, address)
	}
}

// Close closes all connections.
func (c *Client) Close() error { return c.all.Close() }
