/**
 * The HTTP API: the routes of infra/routes.ts and a fallback, each only for callers who sign with IAM. Payload 2.0,
 * which is what the functions read.
 */

import { HttpApi, HttpMethod, PayloadFormatVersion } from 'aws-cdk-lib/aws-apigatewayv2';
import { HttpIamAuthorizer } from 'aws-cdk-lib/aws-apigatewayv2-authorizers';
import { HttpLambdaIntegration } from 'aws-cdk-lib/aws-apigatewayv2-integrations';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import { Construct } from 'constructs';
import { type ApiFunctionName, FALLBACK_FUNCTION, ROUTES } from '../routes.ts';

export type RoutedFunctions = Readonly<Record<ApiFunctionName | typeof FALLBACK_FUNCTION, IFunction>>;

export class HttpApiRoutes extends Construct {
  readonly url: string;

  constructor(scope: Construct, id: string, functions: RoutedFunctions) {
    super(scope, id);
    const integrate = (name: keyof RoutedFunctions) =>
      new HttpLambdaIntegration(name, functions[name], {
        payloadFormatVersion: PayloadFormatVersion.VERSION_2_0,
      });
    const api = new HttpApi(this, 'Api', {
      apiName: 'kvm-functions',
      defaultAuthorizer: new HttpIamAuthorizer(),
      // API Gateway's `$default` route.
      defaultIntegration: integrate(FALLBACK_FUNCTION),
    });
    for (const { method, path, function: name } of ROUTES) {
      api.addRoutes({ path, methods: [HttpMethod[method]], integration: integrate(name) });
    }
    this.url = api.apiEndpoint;
  }
}
