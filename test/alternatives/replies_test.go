package alternatives_test

import (
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// An instant is a number that the clock has a part in: nine digits or more, and perhaps a
// fraction.
var instant = regexp.MustCompile(`\d{9,}(?:\.\d+)?`)

// replies are compared with those of the page, on which "..." stands for anything, and an
// instant for another one of as many digits. The instants that were met must be ordered as
// those of the page are: the same where the page has the same, later where it has later.
type replies struct{ instants []pair }

type pair struct{ page, met string }

// compare returns an error if what was met differs from the page in more than instants.
func (r *replies) compare(page, met []string) error {
	if len(page) != len(met) {
		return fmt.Errorf("the page has %q, the server replied %q", page, met)
	}
	for i, line := range page {
		pattern := regexp.QuoteMeta(line)
		pattern = strings.ReplaceAll(pattern, regexp.QuoteMeta("..."), ".*")
		pattern = regexp.MustCompile(`\d{9,}(?:\\\.\d+)?`).ReplaceAllStringFunc(pattern, func(number string) string {
			whole, _, fraction := strings.Cut(number, ".")
			digits := len(strings.TrimSuffix(whole, `\`))
			if fraction {
				return fmt.Sprintf(`(\d{%d}(?:\.\d+)?)`, digits)
			}
			return fmt.Sprintf(`(\d{%d})`, digits)
		})
		match := regexp.MustCompile("^" + pattern + "$").FindStringSubmatch(met[i])
		if match == nil {
			return fmt.Errorf("the page has %q, the server replied %q", line, met[i])
		}
		for n, number := range instant.FindAllString(line, -1) {
			r.instants = append(r.instants, pair{number, match[n+1]})
		}
	}
	return nil
}

// ordered returns an error if instants of one unit are in another order than on the page.
func (r *replies) ordered() error {
	for i, a := range r.instants {
		for _, b := range r.instants[:i] {
			if digits(a.page) == digits(b.page) && number(a.page).Cmp(number(b.page)) != number(a.met).Cmp(number(b.met)) {
				return fmt.Errorf("the page has %s and %s, the server replied %s and %s", b.page, a.page, b.met, a.met)
			}
		}
	}
	return nil
}

func digits(instant string) int {
	whole, _, _ := strings.Cut(instant, ".")
	return len(whole)
}

func number(instant string) *big.Rat {
	value, _ := new(big.Rat).SetString(instant)
	return value
}

func TestReplies(t *testing.T) {
	for _, c := range []struct {
		name      string
		page, met []string
		same      bool
	}{
		{"the same", []string{"0 15 14 -1 2"}, []string{"0 15 14 -1 2"}, true},
		{"another number", []string{"0 15 14 -1 2"}, []string{"0 15 13 -1 2"}, false},
		{"a line too few", []string{"1", "2"}, []string{"1"}, false},
		{"another instant", []string{"1795329705930262158"}, []string{"1795330000000000001"}, true},
		{"an instant of another unit", []string{"1795329705930262158"}, []string{"1795329705930262"}, false},
		{"no instant", []string{"1795329705930262158"}, []string{"abc"}, false},
		{"the same instant twice", []string{"1795329705930262158", "1795329705930262158"}, []string{"1795330000000000001", "1795330000000000001"}, true},
		{"not the same instant twice", []string{"1795329705930262158", "1795329705930262158"}, []string{"1795330000000000001", "1795330000000000002"}, false},
		{"a later instant", []string{"1795329705930262158", "1795329705930262159"}, []string{"1795330000000000001", "1795330009999999999"}, true},
		{"not a later instant", []string{"1795329705930262158", "1795329705930262159"}, []string{"1795330000000000001", "1795330000000000001"}, false},
		{"an earlier instant", []string{"1795329705930262158", "1795329705930262159"}, []string{"1795330000000000002", "1795330000000000001"}, false},
		{"with a fraction", []string{"SET k 312100927.818923"}, []string{"SET k 312200000.5"}, true},
		{"a fraction is not a point", []string{"SET k 312100927.818923"}, []string{"SET k 312200000x5"}, false},
		{"anything", []string{"ERR ..., on @user_script:34."}, []string{"ERR 12 34, on @user_script:34."}, true},
		{"not anything at the end", []string{"ERR ..., on @user_script:34."}, []string{"ERR 12 34, on @user_script:35."}, false},
	} {
		var replies replies
		err := replies.compare(c.page, c.met)
		if err == nil {
			err = replies.ordered()
		}
		require.Equal(t, c.same, err == nil, "%s: %v", c.name, err)
	}
}
