package redis

import (
	"fmt"
	"strconv"
	"sync/atomic"
)

// A lastWord is the last word of a command, and notes when the command is written to a connection.
// Go-redis returns context.DeadlineExceeded both for a command that has waited for a connection and
// for a command that has waited for its answer. But only the second one has been written, and may
// be executed even if no answer comes.
//
// Go-redis asks for the bytes of the word when it writes the command, and not before, unless it is
// an AutoPipeliner. Hooks of go-redis find the lastWord among the arguments; it prints as the word
// does.
type lastWord struct {
	word    any
	written atomic.Bool
	digits  [20]byte // of an int, so that its bytes take no memory of their own
}

// noteWriting puts a lastWord in the place of the last word.
func noteWriting(words []any) *lastWord {
	at := len(words) - 1
	last := &lastWord{word: words[at]}
	before, isSentAgain := words[at].(*lastWord)
	if isSentAgain {
		last.word = before.word
	}
	words[at] = last
	return last
}

// isWritten reports whether the command has been written. For a nil lastWord it is not known, and
// isWritten returns false.
func (w *lastWord) isWritten() bool { return w != nil && w.written.Load() }

// MarshalBinary returns the word as go-redis would write it.
func (w *lastWord) MarshalBinary() ([]byte, error) {
	w.written.Store(true)
	switch word := w.word.(type) {
	case string:
		return []byte(word), nil
	case int:
		return strconv.AppendInt(w.digits[:0], int64(word), 10), nil
	case int64:
		return strconv.AppendInt(w.digits[:0], word, 10), nil
	}
	return fmt.Append(nil, w.word), nil
}

// String returns the word.
func (w *lastWord) String() string { return fmt.Sprint(w.word) }
