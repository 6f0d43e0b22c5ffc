package grpclimit_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"funnel/limiter/grpclimit"
)

// told returns all that a client learns from an answer.
func told(err error, trailer metadata.MD) string {
	answer := status.Convert(err)
	words := []any{answer.Code(), answer.Message(), trailer["grpc-retry-pushback-ms"]}
	for _, detail := range answer.Details() {
		switch detail := detail.(type) {
		case *errdetails.RetryInfo:
			words = append(words, detail.RetryDelay.AsDuration())
		case *errdetails.QuotaFailure:
			v := detail.Violations[0]
			words = append(words, v.Subject, v.QuotaId, v.Description, v.QuotaValue)
		}
	}
	return strings.TrimSpace(fmt.Sprintln(words...))
}

// A service answers a call, and each message of a stream, by a message of the same size.
type service struct {
	testpb.UnimplementedTestServiceServer
}

func (service) UnaryCall(_ context.Context, r *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
	return &testpb.SimpleResponse{Payload: r.GetPayload()}, nil
}

func (service) FullDuplexCall(stream testpb.TestService_FullDuplexCallServer) error {
	for {
		message, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		err = stream.Send(&testpb.StreamingOutputCallResponse{Payload: message.GetPayload()})
		if err != nil {
			return err
		}
	}
}

// connect starts a service behind a policy, and connects to it.
func connect(t *testing.T, limited *grpclimit.Policy) *grpc.ClientConn {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer(grpc.UnaryInterceptor(limited.Unary), grpc.StreamInterceptor(limited.Stream))
	t.Cleanup(server.Stop)
	testpb.RegisterTestServiceServer(server, service{})
	healthpb.RegisterHealthServer(server, health.NewServer())
	go server.Serve(listener)
	connection, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { connection.Close() })
	return connection
}

func serve(t *testing.T, limited *grpclimit.Policy) testpb.TestServiceClient {
	return testpb.NewTestServiceClient(connect(t, limited))
}
