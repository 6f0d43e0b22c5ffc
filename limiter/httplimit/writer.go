package httplimit

import (
	"io"
	"net/http"
	"slices"
	"strconv"
)

// A writer is the ResponseWriter of an allowed request. The headers of the limit are set before the
// handler runs, so that the handler sees them, and can delete them. But a handler that is an
// httputil.ReverseProxy adds the headers of its upstream to these, and the client would get two
// answers to one question. The writer makes them one, just before they are sent.
type writer struct {
	http.ResponseWriter
	ours     [len(ourHeaders)][]string // that were set before the handler runs
	isUnited bool
}

// ourHeaders are the headers of an allowed request.
var ourHeaders = [...]string{policyList, stateList, limitHeader, remainingHeader, resetHeader}

// Unite returns a ResponseWriter for a handler behind a decision whose headers [SetHeaders] has set
// in w. If the handler adds headers of its own about limits, as a reverse proxy adds those of its
// upstream, they are united before they are sent: each X-RateLimit header has one value, of the
// side with less remaining, and the lists have one member for each name. Call end when the handler
// has returned: if it has written nothing, that unites the headers.
//
// The handler can flush, hijack and send files as with w, and use [http.ResponseController]. The
// middleware of [New] does this by itself.
func Unite(w http.ResponseWriter) (inner http.ResponseWriter, end func()) {
	out := newWriter(w)
	return out.forHandler(), out.unite
}

// newWriter returns the writer of a request whose headers have been set.
func newWriter(w http.ResponseWriter) *writer {
	wrapped := &writer{ResponseWriter: w}
	for i, name := range ourHeaders {
		wrapped.ours[i] = w.Header()[name]
	}
	return wrapped
}

// forHandler returns the writer with the interfaces that handlers ask for by a type assertion: it
// is an http.Flusher and an http.Hijacker if the writer inside is. It is an io.ReaderFrom in any
// case, so that files are sent as without it. [http.ResponseController] finds everything else by
// Unwrap.
func (w *writer) forHandler() http.ResponseWriter {
	flusher, canFlush := w.ResponseWriter.(http.Flusher)
	hijacker, canHijack := w.ResponseWriter.(http.Hijacker)
	switch {
	case canFlush && canHijack:
		return struct {
			flushing
			http.Hijacker
		}{flushing{w, flusher}, hijacker}
	case canFlush:
		return flushing{w, flusher}
	case canHijack:
		return struct {
			*writer
			http.Hijacker
		}{w, hijacker}
	}
	return w
}

// A flushing writer is an http.Flusher.
type flushing struct {
	*writer
	flusher http.Flusher
}

// Flush sends what is buffered.
func (w flushing) Flush() {
	w.unite()
	w.flusher.Flush()
}

// FlushError is what [http.ResponseController] calls.
func (w *writer) FlushError() error {
	w.unite()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap is for [http.ResponseController].
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader sends the headers.
func (w *writer) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols { // others are informational: more follow
		w.unite()
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(body []byte) (int, error) {
	w.unite()
	return w.ResponseWriter.Write(body)
}

// WriteString spares the copy that io.WriteString would make.
func (w *writer) WriteString(body string) (int, error) {
	w.unite()
	return io.WriteString(w.ResponseWriter, body)
}

// ReadFrom sends a body that io.Copy copies.
func (w *writer) ReadFrom(body io.Reader) (int64, error) {
	w.unite()
	return io.Copy(w.ResponseWriter, body)
}

// unite makes one set of headers: from the headers that were set before the handler ran, and the
// headers that the handler has added.
func (w *writer) unite() {
	if w.isUnited {
		return
	}
	w.isUnited = true
	var added [len(ourHeaders)][]string
	isChanged := false
	for i, name := range ourHeaders {
		values, ours := w.Header()[name], w.ours[i]
		if len(values) > len(ours) && slices.Equal(values[:len(ours)], ours) {
			added[i], isChanged = values[len(ours):], true
		}
	}
	if isChanged {
		w.merge(added)
	}
}

// merge leaves one value in each header that describes one policy, and one member for each name in
// the lists. Of two members with one name, the middleware's stays.
func (w *writer) merge(added [len(ourHeaders)][]string) {
	header := w.Header()
	for i, name := range ourHeaders[:2] {
		names := map[string]bool{}
		for _, line := range w.ours[i] {
			members, _ := split(line)
			for _, m := range members {
				names[m.name] = true
			}
		}
		header[name] = append(slices.Clone(w.ours[i]), without(added[i], names)...)
	}
	if !slices.ContainsFunc(added[2:], func(values []string) bool { return len(values) > 0 }) {
		return
	}
	chosen := w.ours
	if w.isLess(added) {
		chosen = added
	}
	for i, name := range ourHeaders[2:] {
		delete(header, name)
		if len(chosen[2+i]) > 0 {
			header[name] = chosen[2+i][:1]
		}
	}
}

// isLess reports whether the handler's headers say that less remains than the middleware's do. If
// both say the same, a handler that refuses the request counts as less.
func (w *writer) isLess(added [len(ourHeaders)][]string) bool {
	ours, theirs, isRefused := w.ours[3], added[3], w.Header().Get("Retry-After") != ""
	if len(theirs) == 0 {
		return false
	}
	if len(ours) == 0 {
		return true
	}
	our, _ := strconv.Atoi(ours[0])
	their, err := strconv.Atoi(theirs[0])
	return err == nil && (their < our || their == our && isRefused)
}
