package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestClientsInGoAreTimed(t *testing.T) {
	s := setting(t)
	s.Window = 200 * time.Millisecond
	table := s.goClients()
	require.NoError(t, s.Err)
	require.Len(t, table.Rows, 10)
	for _, row := range table.Rows {
		require.Len(t, row, len(table.Columns))
		for column, cell := range row {
			require.NotContains(t, []string{"", "0", "0.0"}, cell, "%s: %s", row[0], table.Columns[column])
		}
	}
}

func TestHotKeyIsTimed(t *testing.T) {
	s := setting(t)
	s.Window = 200 * time.Millisecond
	table := s.leases()
	require.NoError(t, s.Err)
	require.Len(t, table.Rows, 3*7)
}
