package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"funnel/limiter"
	"funnel/limiter/httplimit"
)

// The limits of wrong passwords. A password that is right gives its tokens back, and is not
// counted.
var (
	// Guesses of one client at one account: never more than 5 in any 15 minutes, 3 of them at once.
	guesses = limiter.AtMost(5, 15*time.Minute, 3)

	// Guesses at one account from anywhere, such as a botnet. It is larger, so no single address
	// can use it up and lock the owner out.
	accountGuesses = limiter.PerHour(30).WithCapacity(15)

	// Guesses of one client at all accounts. It also bounds how many keys a client can make by
	// inventing accounts.
	addressGuesses = limiter.Window(50, 15*time.Minute)
)

const longestAccount = 64 // bytes: the account is part of keys

// login returns the handler that tells customers who know their password what their API key is.
func (s *service) login() http.Handler {
	limit := httplimit.New(s.limiters.login, "login", guesses,
		httplimit.WithKey(httplimit.Join(accountOf, s.clients.Key)),
		httplimit.WithAlso("account", accountGuesses, accountOf),
		httplimit.WithAlso("address", addressGuesses, s.clients.Key))
	limited := limit(http.HandlerFunc(s.checkPassword))

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
		account := r.PostFormValue("account") // the keys are made of it, so it is read in front of the limits
		if account == "" || len(account) > longestAccount {
			http.Error(w, fmt.Sprintf("account must have 1 to %d bytes", longestAccount), http.StatusBadRequest)
			return
		}
		limited.ServeHTTP(w, r)
	})
}

// accountOf is the key of the account that a request names. It is the same however the account is
// written.
func accountOf(r *http.Request) string { return accountKey(r.PostFormValue("account")) }

func accountKey(account string) string { return url.QueryEscape(strings.ToLower(account)) }

func (s *service) checkPassword(w http.ResponseWriter, r *http.Request) {
	c := s.authenticate(r.PostFormValue("account"), r.PostFormValue("password"))
	if c == nil { // whether the account exists is nobody's business
		http.Error(w, "wrong account or password", http.StatusUnauthorized)
		return
	}
	results := httplimit.ResultsFrom(r.Context())
	_, err := s.limiters.login.SettleAll(context.WithoutCancel(r.Context()), results, make([]int, len(results)))
	if err != nil { // the login counts as a guess, which is no reason to refuse it
		slog.Warn("a login is not given back", "account", c.name, "error", err)
	}
	fmt.Fprintln(w, c.apiKey)
}

// authenticate returns the customer with that account and password, or nil. It takes as long for an
// account that does not exist.
func (s *service) authenticate(account, password string) *customer {
	found := &customer{}
	for _, c := range s.customers {
		if accountKey(c.name) == accountKey(account) { // or a spelling would have limits of its own
			found = c
		}
	}
	want, got := sha256.Sum256([]byte(found.password)), sha256.Sum256([]byte(password))
	if subtle.ConstantTimeCompare(want[:], got[:]) == 0 || found.name == "" {
		return nil
	}
	return found
}

// loginLimits returns the limits of a customer's logins for the admin page: of the account, and of
// the client at that address if there is one.
func (s *service) loginLimits(c *customer, address string) []watched {
	l := s.limiters.login
	account := accountKey(c.name)
	limits := []watched{watch(l, "account", account, accountGuesses, 1)}
	if address != "" {
		client := s.clients.KeyOf(address, nil)
		both := httplimit.Join(constant(account), constant(client))(nil)
		limits = append(limits, watch(l, "login", both, guesses, 1), watch(l, "address", client, addressGuesses, 1))
	}
	return limits
}

func constant(key string) httplimit.KeyFunc { return func(*http.Request) string { return key } }
