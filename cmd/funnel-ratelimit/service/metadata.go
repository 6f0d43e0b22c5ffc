package service

import (
	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/envoyproxy/ratelimit/src/config"
	"google.golang.org/protobuf/types/known/structpb"
)

// metadataOf describes a request and its violations of quota mode, for RESPONSE_DYNAMIC_METADATA.
func metadataOf(request *pb.RateLimitRequest, limits []*config.RateLimit, violations []int) *structpb.Struct {
	isQuotaMode := false
	for _, limit := range limits {
		isQuotaMode = isQuotaMode || limit != nil && limit.QuotaMode
	}
	descriptors := make([]*structpb.Value, len(request.Descriptors))
	for i, descriptor := range request.Descriptors {
		descriptors[i] = structpb.NewStructValue(describe(descriptor))
	}
	fields := map[string]*structpb.Value{
		"domain":           structpb.NewStringValue(request.Domain),
		"descriptors":      listOf(descriptors),
		"quotaModeEnabled": structpb.NewBoolValue(isQuotaMode),
	}
	if request.HitsAddend > 0 {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(request.HitsAddend))
	}
	if len(violations) > 0 {
		indexes := make([]*structpb.Value, len(violations))
		for i, index := range violations {
			indexes[i] = structpb.NewNumberValue(float64(index))
		}
		fields["quotaModeViolations"] = listOf(indexes)
	}
	return &structpb.Struct{Fields: fields}
}

func describe(descriptor *common.RateLimitDescriptor) *structpb.Struct {
	entries := make([]*structpb.Value, len(descriptor.Entries))
	for i, entry := range descriptor.Entries {
		entries[i] = structpb.NewStringValue(entry.Key + "=" + entry.Value)
	}
	fields := map[string]*structpb.Value{"entries": listOf(entries)}
	if descriptor.Limit != nil {
		fields["limit"] = structpb.NewStringValue(descriptor.Limit.String())
	}
	if descriptor.HitsAddend != nil {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(descriptor.HitsAddend.Value))
	}
	return &structpb.Struct{Fields: fields}
}

func listOf(values []*structpb.Value) *structpb.Value {
	return structpb.NewListValue(&structpb.ListValue{Values: values})
}
