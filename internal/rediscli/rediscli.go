// Package rediscli shows replies as redis-cli does in a terminal.
package rediscli

import (
	"fmt"
	"strconv"
	"strings"
)

// Lines returns the lines of a reply: an int64, a string, nil, an error, or a []any of these.
func Lines(reply any) (lines []string) {
	switch reply := reply.(type) {
	case error:
		return []string{"(error) " + reply.Error()}
	case int64:
		return []string{fmt.Sprintf("(integer) %d", reply)}
	case nil:
		return []string{"(nil)"}
	case []any:
		for i, element := range reply {
			prefix := strconv.Itoa(i+1) + ") "
			for _, line := range Lines(element) {
				lines = append(lines, prefix+line)
				prefix = strings.Repeat(" ", len(prefix))
			}
		}
		return lines
	}
	return []string{fmt.Sprintf("%q", reply)}
}
