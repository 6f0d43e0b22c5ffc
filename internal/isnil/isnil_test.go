package isnil_test

import (
	"errors"
	"testing"

	"funnel/internal/isnil"
)

func TestIs(t *testing.T) {
	var none *int
	for _, value := range []any{nil, none} {
		if !isnil.Is(value) {
			t.Errorf("%#v is nil", value)
		}
	}
	for _, value := range []any{new(int), 0, errors.New("x")} {
		if isnil.Is(value) {
			t.Errorf("%#v is not nil", value)
		}
	}
}
