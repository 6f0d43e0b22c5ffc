package httplimit

import (
	"net/http"
	"strings"
)

// hops are the addresses in a header, read from the right.
type hops struct {
	lines     []string // whole ones that are still to be read
	line      string   // what is left of the present one
	forwarded bool     // RFC 7239, or else a plain list
}

func hopsOf(header http.Header, name string) hops {
	if name == "" {
		name = "X-Forwarded-For"
	}
	name = http.CanonicalHeaderKey(name)
	return hops{lines: header[name], forwarded: name == "Forwarded"}
}

// last takes off the last address. It is empty where the last element has none.
func (h *hops) last() (address string, found bool) {
	for {
		if h.line == "" {
			if len(h.lines) == 0 {
				return "", false
			}
			end := len(h.lines) - 1
			h.line, h.lines = h.lines[end], h.lines[:end]
		}
		var element string
		h.line, element = cutLast(h.line, h.forwarded)
		if element = strings.Trim(element, " \t"); element == "" {
			continue // HTTP allows empty elements
		}
		if h.forwarded {
			element = forwardedFor(element)
		}
		return element, true
	}
}

// cutLast cuts a list at its last comma, outside of quotes if they count. Quotes,
// too, are matched from the right: what a trusted proxy has written there is well
// formed, and an open quote that a client has put in front must not include it.
func cutLast(list string, quotes bool) (rest, element string) {
	quoted := false
	for i := len(list) - 1; i >= 0; i-- {
		switch {
		case list[i] == ',' && !quoted:
			return list[:i], list[i+1:]
		case list[i] == '"' && quotes && !(quoted && escaped(list, i)):
			quoted = !quoted
		}
	}
	return "", list
}

// escaped says whether an odd number of backslashes precedes that character.
func escaped(text string, at int) bool {
	before := text[:at]
	return (len(before)-len(strings.TrimRight(before, `\`)))%2 == 1
}

// forwardedFor is the value of the parameter for, in an element of Forwarded such as
// for="[2001:db8::1]:4711";proto=https, or empty.
func forwardedFor(element string) string {
	address, found := "", false
	for rest, more := element, true; more; {
		var name, value string
		var valid bool
		name, value, rest, more, valid = cutParameter(rest)
		if !valid {
			return ""
		}
		if strings.EqualFold(name, "for") {
			if found {
				return "" // RFC 7239 allows only one
			}
			address, found = value, true
		}
	}
	return address
}

// cutParameter reads name=value or name="value", up to a semicolon or the end.
func cutParameter(text string) (name, value, rest string, more, valid bool) {
	text = strings.TrimLeft(text, " \t")
	name, text, found := strings.Cut(text, "=")
	if !found {
		return "", "", "", false, name == ""
	}
	if !strings.HasPrefix(text, `"`) {
		value, rest, more = strings.Cut(text, ";")
		value = strings.TrimRight(value, " \t")
		return name, value, rest, more, !strings.Contains(value, `"`)
	}
	var unescaped strings.Builder
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			rest, more = strings.CutPrefix(strings.TrimLeft(text[i+1:], " \t"), ";")
			return name, unescaped.String(), rest, more, more || rest == ""
		case '\\':
			if i++; i == len(text) {
				return "", "", "", false, false
			}
		}
		unescaped.WriteByte(text[i])
	}
	return "", "", "", false, false
}
