package main

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"funnel/internal/rediscli"
)

//go:embed page
var files embed.FS

// handler serves the page and the calls that it makes.
func handler(s store) http.Handler {
	page, err := fs.Sub(files, "page")
	if err != nil {
		panic(err) // the name above is invalid
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(page))
	mux.HandleFunc("POST /call", func(w http.ResponseWriter, r *http.Request) {
		status, a := answerTo(w, r, s)
		a.Redis = s.rdb.Options().Addr
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(a) // an error means that the client has gone
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

// A call is a call of the page. Redis checks all words except the command and the keys, which check
// checks.
type call struct {
	Command string
	Rows    [][5]string // a key without its prefix, and the four words of its row
	More    []string    // at most one: a max_wait or a tat
}

var keys = regexp.MustCompile(`^[a-z]{1,20}$`)

// check allows the commands of the page, and keys that stay within the prefix.
func (c call) check() error {
	if !slices.Contains([]string{"reserve", "peek", "charge", "refund", "reset"}, c.Command) {
		return fmt.Errorf("command must be reserve, peek, charge, refund or reset, not '%.40s'", c.Command)
	}
	if len(c.Rows) < 1 || len(c.Rows) > 2 {
		return fmt.Errorf("there must be 1 or 2 rows, not %d", len(c.Rows))
	}
	for _, row := range c.Rows {
		if !keys.MatchString(row[0]) {
			return fmt.Errorf("key must be 1 to 20 letters from a to z, not '%.40s'", row[0])
		}
	}
	if len(c.More) > 1 {
		return fmt.Errorf("there must be at most 1 word behind the rows, not %d", len(c.More))
	}
	return nil
}

// An answer has the command that was sent and the reply, or an error.
type answer struct {
	Redis  string `json:"redis"` // its address
	Sent   string `json:"sent"`
	Shown  string `json:"shown"`  // the reply, as redis-cli shows it
	Source string `json:"source"` // module or script
	Reply  any    `json:"reply"`
	Error  string `json:"error,omitempty"`
}

// answerTo answers a call: with status 400 if it is wrong, 502 if Redis cannot decide, and 503 if
// Redis does not reply.
func answerTo(w http.ResponseWriter, r *http.Request, s store) (status int, a answer) {
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
	a, err = s.send(r.Context(), asked)
	var reply redis.Error
	switch {
	case err == nil:
		a.Shown = strings.Join(rediscli.Lines(a.Reply), "\n")
		return http.StatusOK, a
	case !errors.As(err, &reply):
		status = http.StatusServiceUnavailable
	case strings.HasPrefix(reply.Error(), "INVALID "), strings.HasPrefix(reply.Error(), "ENDED "),
		strings.HasPrefix(reply.Error(), "ERR wrong number of arguments"):
		status = http.StatusBadRequest
	default:
		status = http.StatusBadGateway
	}
	a.Error = err.Error()
	return status, a
}
