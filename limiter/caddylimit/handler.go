package caddylimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"funnel/limiter"
	"funnel/limiter/httplimit"
	"funnel/limiter/internal/policy"
)

func init() {
	caddy.RegisterModule(Handler{})
}

// A Handler limits requests by policies. All policies that apply to a request are one decision: the
// request takes from all of them, or is refused and takes from none.
//
// A refused request is an HTTP error, for handle_errors: 429, or 413 if it costs more than the
// capacity. If nothing was decided it is 503, or 500 if the cost of the request is not valid. The
// headers Retry-After, RateLimit, RateLimit-Policy and X-RateLimit-* are set, and so are these
// placeholders:
//
//	{http.funnel.policy}       the name of the policy that refuses the request
//	{http.funnel.key}          its key in Redis, without the prefix
//	{http.funnel.retry_after}  the seconds of Retry-After, or empty if waiting does not help
//	{http.error.message}       a line for the client: "too many requests: try again in 2 seconds (policy "login")"
type Handler struct {
	Policies []*Policy `json:"policies"`

	app   *App
	asker *policy.Asker
}

// CaddyModule returns the name of the module, and a function that makes one.
func (Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.funnel", New: func() caddy.Module { return new(Handler) }}
}

// Provision checks the policies.
func (h *Handler) Provision(ctx caddy.Context) error {
	app, err := ctx.App("funnel")
	if err != nil {
		return err
	}
	h.app = app.(*App)
	if len(h.Policies) == 0 {
		return errNoPolicy
	}
	names := map[string]bool{}
	list := make([]string, len(h.Policies))
	for i, p := range h.Policies {
		list[i] = p.Name
		err := p.provision(ctx, h.app)
		if err == nil && names[p.Name] {
			err = errTwice
		}
		if err != nil {
			return fmt.Errorf("funnel: policy %q: %w", p.Name, err)
		}
		names[p.Name] = true
	}
	h.asker = policy.NewAsker(h.app.connection.limiter, strings.Join(list, ","), ctx.Slogger())
	return nil
}

var (
	errNoPolicy = errors.New("funnel: there is no policy: it needs at least one, as in funnel { policy api { rate 100 1m } }")
	errTwice    = errors.New("the name is taken by another policy of this handler: each has its own")
)

// ServeHTTP asks about the request, and passes it on if it is allowed.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	replacer := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	asked, err := h.questionsOf(r, replacer)
	switch {
	case err != nil:
		return caddyhttp.Error(http.StatusInternalServerError, err)
	case len(asked.names) == 0:
		return next.ServeHTTP(w, r)
	}
	h.app.connection.requests.Add(1)
	defer h.app.connection.requests.Done()
	began := time.Now()
	admission, err := h.asker.Ask(r.Context(), asked.names, asked.requests, asked.slots)
	count(asked.names, &admission, err, time.Since(began))
	if err != nil {
		return undecided(w, r, err)
	}
	httplimit.SetHeaders(w.Header(), admission.Results, admission.Names...)
	refusing := admission.Refusing()
	if refusing >= 0 {
		return refused(replacer, admission.Names[refusing], admission.Results[refusing])
	}
	ctx, end := admission.Begin(r.Context())
	defer end()
	inner, unite := httplimit.Unite(w)
	err = next.ServeHTTP(inner, r.WithContext(ctx))
	unite()
	if err != nil && errors.Is(context.Cause(ctx), limiter.ErrSlotLost) {
		return caddyhttp.Error(http.StatusServiceUnavailable, context.Cause(ctx))
	}
	return err
}

// undecided returns the error for a request without a decision.
func undecided(w http.ResponseWriter, r *http.Request, err error) error {
	status := policy.StatusOf(r.Context(), err)
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	return caddyhttp.Error(status, err)
}

// refused returns the error for a limited request, and sets the placeholders about it.
func refused(replacer *caddy.Replacer, name string, result limiter.Result) error {
	refusal := httplimit.Refusal{Policy: name, Result: result, RetryAfter: policy.RetryAfter(result)}
	replacer.Set("http.funnel.policy", name)
	replacer.Set("http.funnel.key", result.Key)
	seconds := ""
	if refusal.RetryAfter > 0 {
		seconds = strconv.Itoa(int(refusal.RetryAfter / time.Second))
	}
	replacer.Set("http.funnel.retry_after", seconds)
	return caddyhttp.Error(refusal.Status(), errors.New(refusal.String()))
}

// Interface guards.
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
