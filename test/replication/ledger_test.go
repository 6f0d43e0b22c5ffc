package replication_test

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A ledger knows what clients asked of their funnels and what they were answered, and
// requires that servers agree.
//
// The bound: in any stretch of time a funnel grants no more than capacity + elapsed / T
// tokens, where T is the emission interval. The TAT shows both sides of it. Each token
// moves the TAT by T, from the opening of the ledger at the earliest; and the TAT never
// lies more than the capacity ahead of now:
//
//	opened + kept * T <= max(TAT, now)     no token is lost, none granted twice
//	TAT <= now + min(asked, capacity) * T  none is there that nobody asked for
//
// Kept are the tokens that must be there, whatever has failed. Asked are those that may
// be there, which are more after a failure:
//
//   - the tokens of a call whose connection broke after it was sent: nobody knows
//     whether it came to the server;
//   - the tokens of a call that a killed server has answered, if it had not yet put them
//     where they outlast it ([ledger.keep]).
//
// As long as T is longer than the test, nothing leaks. Then both sides name one number
// of tokens, which is exact when nothing has failed.
type ledger struct {
	opened time.Time

	mutex    sync.Mutex
	survives bool // whether tokens are kept as soon as a call is answered; else keep says so
	accounts []account
	figures  figures
	breaches []string // replies that break the bound
}

// A funnel is filled with one capacity and one emission interval only.
type funnel struct {
	key      string
	capacity int64
	interval time.Duration
}

// An account is what is known of one funnel, in tokens since the ledger was opened.
type account struct {
	funnel
	answered int64 // the server has said that they are in
	kept     int64
	asked    int64
}

type figures struct {
	allowed, limited, peeked int64 // calls by their replies
	refused                  int64 // calls that certainly did nothing: an error, or never sent
	unknown                  int64 // calls without an answer
}

func (f figures) answered() int64 { return f.allowed + f.limited + f.peeked }
func (f figures) failed() int64   { return f.refused + f.unknown }

// still is an emission interval that outlasts every test.
const still = 10_000 * time.Second

func openLedger(funnels []funnel) *ledger {
	ledger := &ledger{opened: time.Now(), survives: true}
	for _, funnel := range funnels {
		ledger.accounts = append(ledger.accounts, account{funnel: funnel})
	}
	return ledger
}

// groupSize is how many funnels, one after the other, are in one slot.
const groupSize = 3

// mixedFunnels are groups of three kinds: small and soon full, large and never full, and
// such that leak, and come and go.
func mixedFunnels(prefix string, count int) (funnels []funnel) {
	for i := range count {
		key, small := fmt.Sprintf("%s{%d}:%d", prefix, i/groupSize, i), 1+int64(i)%16
		funnels = append(funnels, []funnel{{key, small, still}, {key, 50_000, still}, {key, small, 100 * time.Millisecond}}[i%groupSize])
	}
	return funnels
}

// A call is entered before it is sent, and again when it is known what became of it.
type call []part

// A part of a call is the tokens for one of its funnels.
type part struct {
	*account
	tokens int64
	kept   int64 // of the funnel when the call was sent
}

func (p part) String() string { return fmt.Sprintf("%d tokens for %+v", p.tokens, p.funnel) }

func (l *ledger) ask(funnels []int, tokens int64) (call call) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, funnel := range funnels {
		account := &l.accounts[funnel]
		call = append(call, part{account: account, tokens: tokens, kept: account.kept})
		account.asked += tokens
	}
	return call
}

// refuse enters that a call did nothing.
func (c call) refuse() {
	for _, part := range c {
		part.account.asked -= part.tokens
	}
}

// A row is what a reply says of one funnel.
type row struct {
	limited                 bool
	limit, remaining, taken int64
}

// enterReply judges the rows of a reply by what was known when the call was sent, and
// enters it.
func (l *ledger) enterReply(call call, rows []row) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for i, part := range call {
		row, leaked, taken := rows[i], int64(time.Since(l.opened)/part.interval), rows[i].taken
		switch {
		case row.limit != part.capacity || row.remaining < 0 || row.remaining > row.limit-taken || taken < 0 || taken > part.tokens:
			l.breach(call, "contradicts itself: %v", rows)
		case row.limited && (row.remaining >= part.tokens || part.asked <= part.capacity):
			l.breach(call, "is limited though it fits into what %d tokens have left: %v", part.asked-part.tokens, rows)
		case row.limit-row.remaining+leaked < part.kept+taken:
			l.breach(call, "finds the funnel emptier than %d tokens have left it: %v", part.kept, rows)
		}
		part.answered += taken
		part.asked -= part.tokens - taken
		if l.survives {
			part.account.kept += taken
		}
	}
	switch {
	case rows[0].taken < call[0].tokens:
		l.figures.limited++
	case call[0].tokens == 0:
		l.figures.peeked++
	default:
		l.figures.allowed++
	}
}

// enterFailure enters a call without a reply. Nobody knows what became of it, unless it was
// answered with an error, which only servers that change roles may do, or never sent.
func (l *ledger) enterFailure(call call, err error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	var reply redis.Error
	var network *net.OpError
	switch {
	case err == nil:
		l.breach(call, "is answered with something else")
	case errors.As(err, &reply):
		call.refuse()
		word, _, _ := strings.Cut(err.Error(), " ")
		if !slices.Contains([]string{"READONLY", "LOADING", "MASTERDOWN", "MOVED", "CLUSTERDOWN"}, word) {
			l.breach(call, "is answered %v", err)
		}
		l.figures.refused++
	case errors.As(err, &network) && network.Op == "dial":
		call.refuse()
		l.figures.refused++
	default:
		l.figures.unknown++
	}
}

func (l *ledger) breach(call call, format string, arguments ...any) {
	l.breaches = append(l.breaches, fmt.Sprintf("%v: ", call)+fmt.Sprintf(format, arguments...))
}

func (l *ledger) count() figures {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.figures
}

// answered are the tokens that clients have been told of, by funnel.
func (l *ledger) answered() (tokens []int64) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, account := range l.accounts {
		tokens = append(tokens, account.answered)
	}
	return tokens
}

// keep enters that so many tokens are on a disk or a replica by now.
func (l *ledger) keep(answered []int64) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for i, tokens := range answered {
		l.accounts[i].kept = max(l.accounts[i].kept, tokens)
	}
}
