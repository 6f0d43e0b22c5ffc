package httplimit

import (
	"net/http"
	"regexp"
	"strings"
)

// member matches the first member of a list of strings with parameters, which RateLimit and
// RateLimit-Policy are (RFC 9651, section 3.1). Its first group is the string, with its quotes.
var member = regexp.MustCompile(
	`^[ \t]*("(?:[ !#-\[\]-~]|\\["\\])*")(?:; *[a-z*][a-z0-9_.*-]*(?:=` + value + `)?)*[ \t]*(?:,|$)`)

// value matches the value of a parameter: a string, or anything without the characters that end it.
const value = `(?:%?"(?:[ !#-\[\]-~]|\\["\\])*"|[!#-+\--:<-~]+)`

// setMembers adds members to a list, and removes those with the same names.
func setMembers(header http.Header, list string, names map[string]bool, members []string) {
	others := header[list]
	if len(others) > 0 {
		others = without(others, names)
	}
	if len(others)+len(members) > 0 {
		header[list] = append(others, members...)
	}
}

// without returns the members of the lines of a list, except for members with these names. It
// leaves out lines that cannot be read: because of them, clients would ignore the whole list.
func without(lines []string, names map[string]bool) (kept []string) {
	for _, line := range lines {
		members, isList := split(line)
		for _, m := range members {
			if isList && !names[m.name] {
				kept = append(kept, m.text)
			}
		}
	}
	return kept
}

// A listMember is a member of a list, and its name with quotes.
type listMember struct{ text, name string }

// split returns the members of a line, and whether it is a list.
func split(line string) (members []listMember, isList bool) {
	for strings.Trim(line, " \t") != "" {
		found := member.FindStringSubmatch(line)
		if found == nil {
			return nil, false
		}
		members = append(members, listMember{text: strings.Trim(found[0], " \t,"), name: found[1]})
		line = line[len(found[0]):]
	}
	return members, true
}
