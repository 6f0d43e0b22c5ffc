package caddylimit

import (
	"errors"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"

	"funnel/limiter"
)

func init() {
	caddy.RegisterModule(App{})
}

// An App says which Redis or Valkey server the handlers of a configuration share. In all texts but
// OnFailure, Caddy's global placeholders are replaced, such as {env.REDIS_URL} and {file.PATH}.
type App struct {
	// Redis has the addresses: host:port, the path of a Unix socket, or a URL such as
	// redis://user:password@host:6379/0 or rediss://host:6379. One text may hold several, with
	// commas between them. Several are nodes of a cluster, or Sentinels.
	Redis []string `json:"redis,omitempty"`

	// Cluster says that the addresses are nodes of a cluster. One of them that answers is enough.
	Cluster bool `json:"cluster,omitempty"`

	// Sentinel is the name of the primary. The addresses are then those of Sentinels.
	Sentinel string `json:"sentinel,omitempty"`

	// Username and Password are those of Redis; they count more than those in a URL.
	Username string `json:"username,omitempty"`
	Password string `json:"password,omitempty"`

	// SentinelUsername and SentinelPassword are those of the Sentinels, which may be in their URLs
	// instead.
	SentinelUsername string `json:"sentinel_username,omitempty"`
	SentinelPassword string `json:"sentinel_password,omitempty"`

	// TLS is for connections by TLS. An address rediss:// or another setting of TLS implies it.
	TLS bool `json:"tls,omitempty"`

	// TLSCA is a file with the CA that has signed the certificate of Redis, if the system does not
	// know it.
	TLSCA string `json:"tls_ca,omitempty"`

	// TLSCertificate and TLSKey are files with a client certificate, for servers that ask for one.
	// All files of TLS are read again when they have changed.
	TLSCertificate string `json:"tls_certificate,omitempty"`
	TLSKey         string `json:"tls_key,omitempty"`

	// Prefix is put before every key in Redis.
	Prefix string `json:"prefix,omitempty"`

	// Timeout is how long a request waits for Redis: a second by default.
	Timeout caddy.Duration `json:"timeout,omitempty"`

	// OnFailure says what happens to requests that Redis does not decide. local counts in each
	// Caddy alone, and is the default: an outage of Redis then stops no site, and leaves no site
	// without limits. open lets them through, closed refuses them with 429, and error answers 503.
	OnFailure string `json:"on_failure,omitempty"`

	// Lease is how long tokens may be held ahead, such as 50ms: requests to which a single policy
	// applies are then mostly decided without Redis. By default there are no leases.
	Lease caddy.Duration `json:"lease,omitempty"`

	connection *connection
	settings   *settings
	limits     map[string]limited // of all handlers, by the name of the policy
	start      func() error
}

// CaddyModule returns the name of the module, and a function that makes one.
func (App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "funnel", New: func() caddy.Module { return new(App) }}
}

// Provision makes a connection. If the configuration before has the same settings, Provision uses
// its connection instead. It sends nothing yet.
func (a *App) Provision(ctx caddy.Context) error {
	a.limits = map[string]limited{}
	s, err := a.read(caddy.NewReplacer())
	if err != nil {
		return err
	}
	err = registerMetrics(ctx.GetMetricsRegistry())
	if err != nil {
		return err
	}
	shared, _, err := connections.LoadOrNew(s.key(), func() (caddy.Destructor, error) { return newConnection(s) })
	if err != nil {
		return fmt.Errorf("funnel: %w", err)
	}
	a.connection, a.settings = shared.(*connection), s
	logger := ctx.Slogger()
	a.start = func() error { return a.connection.start(logger) }
	return nil
}

// Start connects to Redis. It returns an error if Redis refuses the user: Caddy then does not
// start, or goes on with the configuration before. Without Redis it starts all the same.
func (a *App) Start() error { return a.start() }

// Stop does nothing: requests that are under way still need the connection.
func (a *App) Stop() error { return nil }

// Cleanup gives the connection back. The last configuration that uses it closes it.
func (a *App) Cleanup() error {
	if a.connection == nil {
		return nil
	}
	_, err := connections.Delete(a.settings.key())
	return err
}

// limited is what a policy limits: a row of tokens or of slots.
type limited struct {
	limit limiter.Limit
	slots limiter.Slots
}

// claim notes the limit of a policy. Policies of one name share their keys, which can have only one
// limit.
func (a *App) claim(name string, of limited) error {
	other, taken := a.limits[name]
	if taken && other != of {
		return fmt.Errorf("there are two policies of that name with different limits, %v and %v: policies of one name "+
			"share what is used; rename one, or give both the same limit", other, of)
	}
	a.limits[name] = of
	return nil
}

func (l limited) String() string {
	if l.slots.Max > 0 {
		return fmt.Sprintf("%d slots with a ttl of %v", l.slots.Max, l.slots.TTL)
	}
	return l.limit.String()
}

// errNoRedis is for those who have not read the page.
var errNoRedis = errors.New("funnel: redis is not set: name a Redis or Valkey server in the global options, " +
	"as in { funnel { redis localhost:6379 } }, or in JSON \"apps\": {\"funnel\": {\"redis\": [\"localhost:6379\"]}}")

// defaultTimeout is the same as in package limiter. A healthy server answers a thousand times
// faster, and a visitor waits for a second without leaving.
const defaultTimeout = time.Second

// dialTimeout is how long to connect may take: TLS and a cluster take longer than requests wait.
const dialTimeout = 5 * time.Second

// Interface guards.
var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)
