package isnil_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/isnil"
)

func TestIs(t *testing.T) {
	for value, want := range map[any]bool{
		nil: true, (*int)(nil): true, new(int): false, 0: false, errors.New("x"): false,
	} {
		require.Equal(t, want, isnil.Is(value), "%#v", value)
	}
}
