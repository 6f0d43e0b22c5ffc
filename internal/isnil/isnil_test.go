package isnil_test

import (
	"errors"
	"testing"

	"funnel/internal/isnil"
)

func TestIs(t *testing.T) {
	var none *int
	var err error
	for _, c := range []struct {
		name  string
		value any
		want  bool
	}{
		{"nil", nil, true},
		{"a nil interface", err, true},
		{"a nil pointer", none, true},
		{"a pointer", new(int), false},
		{"a value", 0, false},
		{"an error", errors.New("x"), false},
	} {
		if got := isnil.Is(c.value); got != c.want {
			t.Errorf("Is of %s: got %v, want %v", c.name, got, c.want)
		}
	}
}
