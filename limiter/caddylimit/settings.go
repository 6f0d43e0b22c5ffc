package caddylimit

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/redis/go-redis/v9"

	"funnel/internal/certs"
	"funnel/internal/redisclient"
	"funnel/limiter"
)

// settings are those of an App, with their defaults, and without placeholders.
type settings struct {
	App
	onFailure limiter.FailurePolicy
	targets   redis.UniversalOptions
	hasTLS    bool
}

// read returns the settings of an App, or an error that says which is not valid.
func (a *App) read(replacer *caddy.Replacer) (*settings, error) {
	s := &settings{App: App{
		Cluster: a.Cluster, TLS: a.TLS, Timeout: cmp.Or(a.Timeout, caddy.Duration(defaultTimeout)), Lease: a.Lease,
		OnFailure: cmp.Or(a.OnFailure, limiter.FailLocal.String()),
	}}
	addresses := strings.Join(a.Redis, ",")
	for _, text := range []struct {
		name, given string
		set         *string
	}{
		{"redis", addresses, &addresses},
		{"sentinel", a.Sentinel, &s.Sentinel},
		{"username", a.Username, &s.Username},
		{"password", a.Password, &s.Password},
		{"sentinel_username", a.SentinelUsername, &s.SentinelUsername},
		{"sentinel_password", a.SentinelPassword, &s.SentinelPassword},
		{"tls_ca", a.TLSCA, &s.TLSCA},
		{"tls_certificate", a.TLSCertificate, &s.TLSCertificate},
		{"tls_key", a.TLSKey, &s.TLSKey},
		{"prefix", a.Prefix, &s.Prefix},
	} {
		value, err := replacer.ReplaceOrErr(text.given, true, true)
		if err != nil {
			return nil, fmt.Errorf("funnel: %s: %w", text.name, err)
		}
		*text.set = value
	}
	if addresses == "" {
		return nil, errNoRedis
	}
	s.Redis = strings.Split(addresses, ",")
	err := s.check()
	if err != nil {
		return nil, fmt.Errorf("funnel: %w", err)
	}
	return s, nil
}

// check checks the settings, and reads their texts.
func (s *settings) check() (err error) {
	s.onFailure, err = readOnFailure(s.OnFailure)
	switch {
	case err != nil:
		return fmt.Errorf("on_failure %w", err)
	case s.Timeout < caddy.Duration(time.Millisecond):
		return fmt.Errorf("timeout is %v: it must be at least 1ms", time.Duration(s.Timeout))
	case s.Lease < 0:
		return fmt.Errorf("lease is %v: it must be at least 0", time.Duration(s.Lease))
	case s.Cluster && s.Sentinel != "":
		return errors.New("cluster and sentinel are both set: the addresses are either nodes of a cluster or Sentinels")
	case len(s.Redis) > 1 && !s.Cluster && s.Sentinel == "":
		return fmt.Errorf("redis has %d addresses: more than one are nodes of a cluster, which needs cluster, "+
			"or Sentinels, which need sentinel with the name of the primary", len(s.Redis))
	case (s.TLSCertificate == "") != (s.TLSKey == ""):
		return errors.New("tls_certificate needs two files: the certificate and its key")
	}
	s.targets = redis.UniversalOptions{
		MasterName: s.Sentinel, IsClusterMode: s.Cluster,
		Username: s.Username, Password: s.Password,
		SentinelUsername: s.SentinelUsername, SentinelPassword: s.SentinelPassword,
	}
	hasTLS, err := redisclient.SetAddresses(&s.targets, s.Redis...)
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	s.hasTLS = s.TLS || hasTLS || s.TLSCA != "" || s.TLSCertificate != ""
	return nil
}

// onFailures are the words for on_failure.
const onFailures = "local, open, closed or error"

// readOnFailure reads a word for on_failure. The error begins with "is".
func readOnFailure(text string) (policy limiter.FailurePolicy, err error) {
	err = policy.UnmarshalText([]byte(text))
	if err != nil {
		return policy, fmt.Errorf("is '%s': it must be %s", text, onFailures)
	}
	return policy, nil
}

// key returns a text that is the same for the same settings.
func (s *settings) key() string {
	text, err := json.Marshal(s.App)
	if err != nil {
		panic(err) // texts and numbers always have one
	}
	return string(text)
}

// connect returns a client of Redis. It sends nothing yet.
func (s *settings) connect() (*redisclient.Client, error) {
	how := redisclient.Settings{Targets: &s.targets, Timeout: time.Duration(s.Timeout), DialTimeout: dialTimeout}
	if s.hasTLS {
		files, err := certs.New(s.readFiles, s.TLSCA, s.TLSCertificate, s.TLSKey)
		if err != nil {
			return nil, err
		}
		how.TLS = files.Config
	}
	return redisclient.New(how)
}

// readFiles reads the files of TLS. It panics if they are not usable, as certs wants it.
func (s *settings) readFiles() *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.TLSCA != "" {
		content, err := os.ReadFile(s.TLSCA)
		if err != nil {
			panic(err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(content) {
			panic(fmt.Sprintf("tls_ca: %s has no certificate in PEM", s.TLSCA))
		}
	}
	if s.TLSCertificate != "" {
		certificate, err := tls.LoadX509KeyPair(s.TLSCertificate, s.TLSKey)
		if err != nil {
			panic(fmt.Sprintf("tls_certificate: %v", err))
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	return config
}
