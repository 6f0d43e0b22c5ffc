#ifndef FUNNEL_FUNNELS_H
#define FUNNEL_FUNNELS_H

/* The commands that take from 1 to 64 funnels and decide them as one. */

#include "abi.h"

/* CL.RESERVE key capacity count period quantity [key ...] [max_wait] */
int reserve_command(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

/* CL.PEEK key capacity count period quantity [key ...] */
int peek_command(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

/* CL.CHARGE key capacity count period quantity [key ...] */
int charge_command(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

/* CL.REFUND key capacity count period quantity [key ...] */
int refund_command(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

#endif
