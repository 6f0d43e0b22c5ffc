package main

import (
	"embed"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"

	"github.com/redis/go-redis/v9"

	"funnel/gcra"
	"funnel/limiter"
)

//go:embed page
var files embed.FS

// A store holds the funnels, which package limiter asks, and slots, which commands ask.
type store struct {
	limiter *limiter.Limiter
	rdb     *redis.Client
	prefix  string
}

// handler serves the page and the calls that it makes.
func handler(s store) http.Handler {
	page, err := fs.Sub(files, "page")
	if err != nil {
		panic(err) // the name above is invalid
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(page))
	mux.HandleFunc("POST /call", func(w http.ResponseWriter, r *http.Request) {
		status, a := decide(w, r, s)
		a.Redis = s.rdb.Options().Addr
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
		guarded.ServeHTTP(w, r)
	})
}

// An answer is what was sent and replied, and what it means; or an error.
type answer struct {
	Redis    string         `json:"redis"` // its address
	Commands []exchange     `json:"commands"`
	Source   limiter.Source `json:"source"`
	Rows     []row          `json:"rows"` // one for each funnel
	Error    string         `json:"error,omitempty"`
}

// A row has times in seconds.
type row struct {
	Limited    bool    `json:"limited"` // or overfull, after a charge
	Wait       float64 `json:"wait"`    // before going ahead, or when limited, before asking again; below 0: never
	ResetAfter float64 `json:"reset_after"`
	Receipt    int64   `json:"receipt,string"` // JavaScript has no such numbers
}

// decide answers a call, with status 400 when it is wrong, 502 when Redis replies an error,
// and 503 when Redis does not reply.
func decide(w http.ResponseWriter, r *http.Request, s store) (status int, a answer) {
	var asked call
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, 16<<10))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&asked)
	if err == nil {
		err = asked.check()
	}
	if err != nil {
		a.Error = err.Error()
		return http.StatusBadRequest, a
	}

	ctx, recording := record(r.Context())
	var results limiter.Results
	if asked.Funnels[0].Job > 0 && asked.Command != "reset" {
		a.Source = limiter.FromModule
		a.Rows, err = asked.askModule(ctx, s)
	} else {
		results, err = asked.ask(ctx, s.limiter)
	}
	a.Commands = *recording
	var invalid gcra.Error
	var reply redis.Error
	switch {
	case err == nil:
		a.tell(results)
		return http.StatusOK, a
	case errors.As(err, &invalid):
		a.Error = invalid.Error()
		return http.StatusBadRequest, a
	case errors.As(err, &reply):
		a.Error = reply.Error()
		return http.StatusBadGateway, a
	}
	a.Error = err.Error()
	return http.StatusServiceUnavailable, a
}

func (a *answer) tell(results limiter.Results) {
	for _, result := range results {
		a.Source = result.Source
		limited, wait := result.Limited() || result.RetryAfter > 0, result.Wait.Seconds()
		switch {
		case result.RetryAfter == limiter.NoRetry:
			wait = -1
		case limited:
			wait = result.RetryAfter.Seconds()
		}
		a.Rows = append(a.Rows, row{limited, wait, result.ResetAfter.Seconds(), result.Receipt})
	}
}
