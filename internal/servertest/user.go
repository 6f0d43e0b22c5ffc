package servertest

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// ClientOfUser connects as a user who has the permissions of these ACL rules, and no
// others.
func (s *Server) ClientOfUser(t testing.TB, rules string) *redis.Client {
	t.Helper()
	setUser := append(Words("acl setuser user reset on >secret"), Words(rules)...)
	require.NoError(t, s.Client(t).Do(context.Background(), setUser...).Err())
	return s.Client(t, func(options *redis.Options) { options.Username, options.Password = "user", "secret" })
}
