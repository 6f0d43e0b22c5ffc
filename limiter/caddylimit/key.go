package caddylimit

import (
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"funnel/limiter/httplimit"
	"funnel/limiter/internal/policy"
)

// A key is what requests have in common that share a limit: the words of a policy's key, whose
// placeholders are replaced for each request.
type key struct {
	words []word
	ip    httplimit.ClientIP
}

// A word is one word of a key.
type word struct {
	text string
	kind wordKind
	name string // of a secret
}

type wordKind int

const (
	// A text is what it says: the id of a user, a path, a constant.
	text wordKind = iota

	// An address counts by prefix.
	address

	// A secret is what a client sends: an API key in a header, a cookie. Redis gets a hash of it.
	secret
)

// addresses are the placeholders for the address of a client. {client_ip} in a Caddyfile is the
// first, {remote_host} the second.
var addresses = map[string]bool{"{http.vars.client_ip}": true, "{http.request.remote.host}": true}

// secrets are the beginnings of placeholders for what a client sends, and of the names under which
// it is hashed: a policy of httplimit whose key is ByHeader has the same keys as one whose key is
// the placeholder of the header.
var secrets = []struct{ placeholder, name string }{
	{"{http.request.header.", ""},
	{"{http.request.cookie.", "cookie."},
	{"{http.request.uri.query.", "query."},
}

// newKey returns the key for the words of a policy. Without words it is the address of the client.
func newKey(words []string, ipv6Bits int) key {
	k := key{ip: httplimit.ClientIP{IPv6Bits: ipv6Bits}}
	if len(words) == 0 {
		words = []string{"{http.vars.client_ip}"}
	}
	for _, text := range words {
		k.words = append(k.words, newWord(text))
	}
	return k
}

func newWord(of string) word {
	if addresses[of] {
		return word{of, address, ""}
	}
	for _, s := range secrets {
		name := strings.TrimSuffix(strings.TrimPrefix(of, s.placeholder), "}")
		switch {
		case of == s.placeholder+name+"}" && !strings.ContainsAny(name, "{}"):
			return word{of, secret, s.name + name}
		case strings.Contains(of, s.placeholder):
			return word{of, secret, "text"}
		}
	}
	return word{of, text, ""}
}

// of returns the key of a request. If a word is empty because the request lacks what its
// placeholders stand for, the address of the client takes its place: nobody escapes a limit by
// leaving out a header, and those who lack it do not share one limit.
func (k key) of(r *http.Request, replacer *caddy.Replacer) string {
	if len(k.words) == 1 {
		return k.word(k.words[0], r, replacer)
	}
	parts := make([]string, len(k.words))
	for i, w := range k.words {
		parts[i] = k.word(w, r, replacer)
	}
	return policy.Join(parts)
}

func (k key) word(w word, r *http.Request, replacer *caddy.Replacer) string {
	isAbsent := strings.Contains(w.text, "{")
	value, err := replacer.ReplaceFunc(w.text, func(_ string, value any) (any, error) {
		isAbsent = isAbsent && caddy.ToString(value) == ""
		return value, nil
	})
	switch {
	case err != nil || isAbsent:
		client, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
		return absent(w.kind) + k.ip.KeyOf(client, nil)
	case w.kind == address:
		return k.ip.KeyOf(value, nil)
	case w.kind == secret:
		return policy.Secret(w.name, value)
	}
	return policy.Path(value)
}

// absent is put before the address that takes the place of a word, so that a user who is called
// like an address does not share its limit: in a text, a percent sign is escaped. A secret is a
// hash, with its name in front.
func absent(kind wordKind) string {
	if kind == text {
		return "%ip:"
	}
	return ""
}
