package main

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/limiter"
)

//go:embed page
var files embed.FS

// handler serves the page and the calls that it makes.
func handler(newLimiter func() *limiter.Limiter, address string) http.Handler {
	var current atomic.Pointer[limiter.Limiter]
	current.Store(newLimiter())
	page, err := fs.Sub(files, "page")
	if err != nil {
		panic(err) // the name above is invalid
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(page))
	mux.HandleFunc("POST /call", func(w http.ResponseWriter, r *http.Request) {
		status, a := decide(w, r, &current, newLimiter)
		a.Redis = address
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(a) // nobody is left to be told of an error
	})
	// Pages of other sites can neither call nor frame this one.
	guarded := http.NewCrossOriginProtection().Handler(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if !isOwn(r.Host) {
			http.Error(w, fmt.Sprintf("open the page by its address or as localhost, not as '%.40s'", r.Host), http.StatusMisdirectedRequest)
			return
		}
		guarded.ServeHTTP(w, r)
	})
}

// isOwn says that no other site can have this host: a name may be made to lead here.
func isOwn(host string) bool {
	name := (&url.URL{Host: host}).Hostname()
	_, err := netip.ParseAddr(name)
	return err == nil || name == "localhost"
}

// An answer is what the reply of CL.RESERVE and its like says, or an error.
type answer struct {
	Redis    string     `json:"redis"` // its address
	Commands []exchange `json:"commands"`

	Path    string  `json:"path,omitempty"`
	Limited bool    `json:"limited"`
	Wait    seconds `json:"wait"`
	Rows    []row   `json:"rows"`

	Error  string `json:"error,omitempty"`
	Field  string `json:"field,omitempty"` // which word is wrong
	Funnel int    `json:"funnel"`          // of which funnel, counted from 0
}

type row struct {
	Limited    bool    `json:"limited"`
	Wait       seconds `json:"wait"`
	ResetAfter seconds `json:"reset_after"`
}

// seconds are written as a number, exactly; or -1.
type seconds time.Duration

func (s seconds) MarshalJSON() ([]byte, error) {
	if time.Duration(s) == limiter.NoRetry {
		return []byte("-1"), nil
	}
	return fmt.Appendf(nil, "%d.%09d", s/1e9, s%1e9), nil
}

// decide answers a call, with status 400 when it is wrong, 502 when Redis replies an error,
// and 503 when Redis does not reply.
func decide(w http.ResponseWriter, r *http.Request, current *atomic.Pointer[limiter.Limiter], newLimiter func() *limiter.Limiter) (status int, a answer) {
	contentType := r.Header.Get("Content-Type")
	if kind, _, err := mime.ParseMediaType(contentType); err != nil || kind != "application/json" {
		a.Error = fmt.Sprintf("the content type must be application/json, not '%.40s'", contentType)
		return http.StatusUnsupportedMediaType, a
	}
	var asked request
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, 16<<10))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&asked); err != nil {
		a.Error = "the body must be a call, in JSON: " + err.Error()
		return http.StatusBadRequest, a
	}

	l := current.Load()
	if asked.Command == "peek" {
		// A limiter that has found no module does without it for a minute. The page
		// peeks every other second, and sees one that was loaded meanwhile.
		l = newLimiter()
	}
	requests, maxWait, err := parse(asked)
	if err == nil {
		ctx, recording := record(r.Context())
		var whole limiter.Result
		var results []limiter.Result
		whole, results, err = ask(ctx, l, asked.Command, requests, maxWait)
		a.Commands = *recording
		if err == nil {
			current.Store(l)
			a.tell(whole, results)
			return http.StatusOK, a
		}
	}

	a.Error = err.Error()
	var word *badWord
	var reply redis.Error
	switch {
	case errors.As(err, &word):
		a.Field, a.Funnel = word.name, word.funnel
		return http.StatusBadRequest, a
	case errors.As(err, &reply):
		return http.StatusBadGateway, a
	}
	return http.StatusServiceUnavailable, a
}

func (a *answer) tell(whole limiter.Result, results []limiter.Result) {
	a.Path, a.Limited, a.Wait = string(whole.Path), limits(whole), wait(whole)
	for _, result := range results {
		a.Rows = append(a.Rows, row{
			Limited:    limits(result),
			Wait:       wait(result),
			ResetAfter: seconds(result.ResetAfter),
		})
	}
}

// limits says that a call is limited, or that a charge or refund leaves a funnel overfull.
func limits(result limiter.Result) bool { return result.Limited() || result.RetryAfter > 0 }

// wait is how long to wait before going ahead, or, when limited, before asking again.
func wait(result limiter.Result) seconds {
	if limits(result) {
		return seconds(result.RetryAfter)
	}
	return seconds(result.Wait)
}

// ask makes a call through package limiter, and returns its result as a whole and that of
// each funnel.
func ask(ctx context.Context, l *limiter.Limiter, command string, requests []limiter.Request, maxWait time.Duration) (whole limiter.Result, results []limiter.Result, err error) {
	first := requests[0]
	switch command {
	case "reserve":
		if len(requests) > 1 {
			return l.AllowAll(ctx, requests...)
		}
		whole, err = l.Reserve(ctx, first.Key, first.Limit, first.Quantity, maxWait)
	case "charge":
		whole, err = l.Charge(ctx, first.Key, first.Limit, first.Quantity)
	case "refund":
		whole, err = l.Refund(ctx, first.Key, first.Limit, first.Quantity)
	case "peek", "reset":
		for _, request := range requests {
			if command == "reset" {
				err = l.Reset(ctx, request.Key)
			}
			if err == nil {
				whole, err = l.Peek(ctx, request.Key, request.Limit)
			}
			if err != nil {
				return whole, nil, err
			}
			results = append(results, whole)
		}
		return whole, results, nil
	}
	return whole, []limiter.Result{whole}, err
}
