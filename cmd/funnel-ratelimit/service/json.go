package service

import (
	"errors"
	"io"
	"net/http"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/sirupsen/logrus"
	"google.golang.org/protobuf/encoding/protojson"
)

// maxBody is the longest body of a request in bytes, as for gRPC by default.
const maxBody = 4 << 20

// ServeHTTP answers a request in JSON.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		code := http.StatusBadRequest
		var tooLong *http.MaxBytesError
		if errors.As(err, &tooLong) {
			code = http.StatusRequestEntityTooLarge
		}
		refuse(w, code, err)
		return
	}
	request := &pb.RateLimitRequest{}
	err = protojson.Unmarshal(body, request)
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	response, err := s.ShouldRateLimit(r.Context(), request)
	if err != nil {
		code := http.StatusServiceUnavailable
		if isWrong(err) {
			code = http.StatusBadRequest
		}
		refuse(w, code, err)
		return
	}
	text, err := protojson.Marshal(response)
	if err != nil {
		refuse(w, http.StatusInternalServerError, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if response.OverallCode == pb.RateLimitResponse_OVER_LIMIT {
		w.WriteHeader(http.StatusTooManyRequests)
	}
	w.Write(text)
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, code int, err error) {
	logrus.Warnf("/json: %d: %v", code, err)
	http.Error(w, err.Error(), code)
}
